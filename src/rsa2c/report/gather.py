"""Everything a run's page shows, section by section. A missing part is replaced by a sentence that says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from rsa2c.config import preset_names
from rsa2c.cost.typical import mean_flops
from rsa2c.envs.names import units
from rsa2c.errors import RSA2CError
from rsa2c.evaluation import EvaluationResult
from rsa2c.report import attention, certificates, episodes, result, trust
from rsa2c.report.embedded import Embedded
from rsa2c.report.lead import lead
from rsa2c.report.scene import scene
from rsa2c.runs.data import AgentData
from rsa2c.runs.evaluation import evaluate_policy

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C

Value = TypeVar("Value")
UNGUIDED = ("none", "uniform")
NO_CHECKPOINT = "The run has no checkpoint yet: it has not completed its first epochs."
NOT_EVALUATED = "The run has not been evaluated yet, so there is no learning curve."
NO_LOG = "The file holds a trained agent without a log of its training, so there is no learning curve."
NO_KERNEL_POLICY = "This run is a baseline without a kernel policy, so the page can neither run nor explain it."


class _Missing:
    """Sentences that say what each section lacks."""

    def __init__(self) -> None:
        self.sentences: dict[str, list[str]] = {}

    def say(self, section: str, sentence: str) -> None:
        self.sentences.setdefault(section, []).append(sentence)

    def attempt(self, section: str, what: str, make: Callable[[], Value]) -> Value | None:
        """The result of `make`; if it fails, None, and a sentence is recorded.

        Environments, renderers and damaged files can raise any exception, and a page with a gap is better than no page.
        """
        try:
            return make()
        except RSA2CError as error:
            self.say(section, f"{what} is missing: {error}")
        except Exception as error:
            self.say(section, f"{what} is missing: {type(error).__name__}: {error}")
        return None


def run_document(data: AgentData, episode_count: int | None = None) -> dict[str, Any]:
    """The data of `report.html.j2`."""
    missing = _Missing()
    config = data.document
    agent = _agent(data, missing)
    document: dict[str, Any] = {
        "kind": "run",
        "run": data.label,
        "environment": config["environment"],
        "algorithm": config["algorithm"],
        "preset": str(config.get("preset", "default")),
        "seed": config["config"].get("seed"),
        "versions": {str(k): str(v) for k, v in (config.get("versions") or {}).items()},
        "commit": config.get("commit"),
        "total_timesteps": config["total_timesteps"],
        "settings": {str(key): str(value) for key, value in config["config"].items()},
        "warnings": [],
    }
    metrics = missing.attempt("result", "The training log", lambda: result.metric_curves(data)) or {}
    document["steps"] = _steps(data, metrics)
    document["result"] = {
        "evaluations": missing.attempt("result", "The learning curve", lambda: result.evaluation_curve(data)),
        "metrics": metrics,
        "phases": result.phases(metrics),
        "spread": result.spread(metrics),
        "command": missing.attempt("result", "The command", lambda: _command(config)),
    }
    if document["result"]["evaluations"] is None and "result" not in missing.sentences:
        missing.say("result", NOT_EVALUATED if data.has_log else NO_LOG)
    _training(data, config, missing, document)
    if agent is not None:
        _explained(data, agent, episode_count, missing, document)
        if document["steps"] < data.total_timesteps:
            document["warnings"].append(
                f"Unfinished: {document['steps']:,} of {data.total_timesteps:,} steps. "
                f"Continue with: rsa2c resume {data.label}"
            )
    document["missing"] = missing.sentences
    return document


def _agent(data: AgentData, missing: _Missing) -> RSA2C | None:
    if not data.has_kernel_agent:
        for section in ("model", "episodes", "trust"):
            missing.say(section, NO_KERNEL_POLICY if data.is_baseline else NO_CHECKPOINT)
        return None
    agent = missing.attempt("model", "The agent", lambda: data.kernel_agent)
    if agent is None:
        for section in ("episodes", "trust"):
            missing.say(section, missing.sentences["model"][0])
    return agent


def _steps(data: AgentData, metrics: dict[str, list[float | None]]) -> int:
    """Environment steps of the agent; those of the log where its checkpoint cannot be read."""
    try:
        return data.steps
    except RSA2CError:
        return int((metrics.get("timesteps") or [0])[-1] or 0)


def _command(config: dict[str, Any]) -> str | None:
    known = ("default", *preset_names(config["environment"]))
    if not config.get("env_is_id", True) or config.get("preset", "default") not in known:
        return None
    return result.rerun_command(config)


def _training(data: AgentData, config: dict[str, Any], missing: _Missing, document: dict[str, Any]) -> None:
    log = missing.attempt("attention", "The log of attributions", lambda: attention.training_log(data))
    document["attention"] = {"training": log}
    if log is None and data.has_log and "attention" not in missing.sentences:
        guided = config["config"].get("guidance") not in UNGUIDED
        missing.say(
            "attention",
            "The run has no attributions yet."
            if guided
            else f"No attributions were computed during training: {config['algorithm']} does not guide its kernel.",
        )


def _explained(
    data: AgentData, agent: RSA2C, episode_count: int | None, missing: _Missing, document: dict[str, Any]
) -> None:
    """Everything that needs the agent."""
    names = {"features": agent.feature_names, "actions": agent.action_names}
    for key, one in names.items():
        document[key] = list(one)
        document[f"{key[:-1]}_units"] = units(agent.env_id, one)
    document["remembered"] = agent.dictionary_sizes
    document["attention"]["reasons"] = attention.reasons(agent)
    document["which_acts"] = data.which_acts
    embedded = missing.attempt("model", "The policy", lambda: Embedded(agent))
    if embedded is None:
        return
    document["model"] = embedded.document()
    document["outputs"] = embedded.output_names
    explained = missing.attempt("attention", "The explanation", lambda: attention.explanations(embedded))
    document["trust"] = {}
    if explained is not None:
        document["attention"]["swarm"] = attention.swarm(embedded, explained)
        document["attention"]["fidelity"] = missing.attempt(
            "attention", "The fidelity", lambda: attention.fidelity(embedded, explained)
        )
        document["trust"]["residuals"] = trust.residuals(explained)
        document["trust"]["measures"] = missing.attempt(
            "trust", "The quality of the explanations", lambda: trust.measures(embedded, explained)
        )
    document["trust"]["certificates"] = missing.attempt("trust", "The certificate", lambda: certificates.table(agent))
    sizes = (len(agent.feature_names), len(agent.action_names), agent.dictionary_size)
    document["result"]["operations"] = missing.attempt("result", "The cost", lambda: mean_flops(agent.config, *sizes))
    clean = _played(data, embedded, episode_count, missing, document)
    document["lead"] = lead(agent, clean, explained)


def _played(
    data: AgentData, embedded: Embedded, count: int | None, missing: _Missing, document: dict[str, Any]
) -> EvaluationResult | None:
    """Everything that needs the environment; the evaluation without noise."""
    agent = embedded.agent
    document["scene"] = missing.attempt("model", "The drawing", lambda: scene(agent.env_id))
    clean = None if count else missing.attempt("result", "The last evaluation", lambda: result.known_result(data))
    known = clean is not None
    if clean is None:
        wanted = count or episodes.final_episodes(agent)
        clean = missing.attempt("result", "The final score", lambda: evaluate_policy(agent, wanted))
    if clean is None:
        missing.say("episodes", missing.sentences["result"][-1])
        return None
    document["result"]["final"] = result.score(clean)
    document["result"]["robustness"] = missing.attempt(
        "result", "The robustness", lambda: result.robustness(agent, clean, data if known else None)
    )
    shown = missing.attempt(
        "episodes",
        "The recording",
        lambda: [(label, episodes.replay(agent, seed)) for label, seed in episodes.chosen(clean.returns)],
    )
    if shown is None:
        return clean
    document["episodes"] = episodes.document(embedded, shown)
    if document["scene"] is None:
        pictures = missing.attempt(
            "episodes", "A picture", lambda: [episodes.frames(agent.source, episode) for _, episode in shown]
        )
        for one, frames in zip(document["episodes"], pictures or [], strict=False):
            one["frames"] = frames
    document["trust"]["familiarity"] = trust.familiarity(embedded, [episode for _, episode in shown])
    return clean
