"""A model card in Hugging Face's format: front matter that its hub reads, then what a reader has to know."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import jinja2
import yaml

from rsa2c.attribution.quality import guide_note, order_note
from rsa2c.envs.names import units
from rsa2c.evaluation import EvaluationResult
from rsa2c.report.lead import skill
from rsa2c.report.page import FOLDER
from rsa2c.report.result import known_result, rerun_command
from rsa2c.runs.evaluation import evaluate_policy
from rsa2c.runs.source import ModelData
from rsa2c.statistics.words import shown
from rsa2c.trained import WEIGHTS
from rsa2c.zoo import is_zoo

if TYPE_CHECKING:
    from rsa2c.agent import RSA2C
    from rsa2c.attribution import Explanation
    from rsa2c.runs.data import AgentData

EXPLAINED_STATES = 32
SHOWN_FEATURES = 8


def model_card(data: AgentData, episodes: int = 100, licence: str | None = None) -> str:
    """The card of a kernel agent, as Markdown with YAML front matter.

    The score is that of its final evaluation; where there is none, `episodes` are played. `licence` is an identifier
    of the hub such as mit; unset, the card has none.
    """
    agent = data.kernel_agent
    result = known_result(data)
    if result is None:
        result = evaluate_policy(agent, episodes)
    explanation = agent.explain(agent.background[:EXPLAINED_STATES], of="action")
    loader = jinja2.FunctionLoader(lambda name: (FOLDER / name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters |= {"plain": plain, "shown": shown}
    return environment.get_template("card.md.j2").render(
        front=yaml.safe_dump(front_matter(agent, result, licence), sort_keys=False, allow_unicode=True),
        agent=agent,
        bounds=agent.policy.bounds,
        score=_score(result),
        skill=skill(agent.env_id, result),
        top=explanation.top(SHOWN_FEATURES),
        notes=_notes(agent, explanation),
        units=units(agent.env_id, agent.feature_names),
        trained=_training(data),
        load=_loading(data),
    )


def front_matter(agent: RSA2C, result: EvaluationResult, licence: str | None = None) -> dict[str, Any]:
    """What the hub reads: tags, and the score as reinforcement-learning cards there give it, mean +/- deviation."""
    return {
        "library_name": "rsa2c",
        **({} if licence is None else {"license": licence}),
        "pipeline_tag": "reinforcement-learning",
        "tags": [agent.env_id, "reinforcement-learning", "continuous-control", "kernel-methods", "explainability"],
        "model-index": [
            {
                "name": agent.algorithm,
                "results": [
                    {
                        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
                        "dataset": {"type": agent.env_id, "name": agent.env_id},
                        "metrics": [
                            {
                                "type": "mean_reward",
                                "name": "mean_reward",
                                "value": f"{shown(result.mean, 2)} +/- {shown(result.std, 2, result.mean)}",
                                "verified": False,
                            }
                        ],
                    }
                ],
            }
        ],
    }


def plain(text: Any) -> str:
    """A name from a file as text of a table's cell: on one line, without Markdown or HTML."""
    line = " ".join(str(text).split())
    for sign in "\\`*_|<>[]":
        line = line.replace(sign, f"\\{sign}" if sign not in "<>" else {"<": "&lt;", ">": "&gt;"}[sign])
    return line


def _notes(agent: RSA2C, explanation: Explanation) -> list[str]:
    """How well the table of features describes the policy, and whether the kernel weights rank them alike."""
    found = agent.fidelity(explanation, "action")
    guided = [f"Kernel weights, which guided its training: {guide_note(found, WEIGHTS, 'action')}."]
    return [f"Fidelity of the table: {order_note(found)}.", *(guided if WEIGHTS in found else [])]


def _score(result: EvaluationResult) -> dict[str, Any]:
    low, high = result.interval()
    return {
        "mean": result.mean,
        "std": result.std,
        "low": low,
        "high": high,
        "has_interval": math.isfinite(low),
        "worst": float(result.returns.min()),
        "best": float(result.returns.max()),
        "length": float(result.lengths.mean()),
        "episodes": len(result.returns),
    }


def _training(data: AgentData) -> dict[str, Any]:
    """How it was trained; the command is None where no command can make the environment again."""
    agent, document = data.kernel_agent, data.document
    return {
        "steps": data.steps,
        "asked": data.total_timesteps,
        "acting": agent.acting.steps,
        "seed": agent.config.seed,
        "noise": agent.config.noise_variance,
        "distractors": agent.config.distractors,
        "distractor_kind": agent.config.distractor_kind,
        "command": " ".join(rerun_command(document).split()) if agent.task.is_id else None,
        "commit": document.get("commit"),
        "versions": {str(name): str(version) for name, version in (document.get("versions") or {}).items()},
    }


def _loading(data: AgentData) -> dict[str, Any]:
    """The Python that loads it: by its name in the zoo, or from its file beside the card."""
    if is_zoo(data.name):
        return {"call": f"rsa2c.load({json.dumps(data.name)})", "own": False}
    own = not data.kernel_agent.task.is_id
    name = data.label if isinstance(data, ModelData) else "model.safetensors"
    quoted = json.dumps(name)
    call = f"rsa2c.RSA2C.load({quoted}, env=make_env)" if own else f"rsa2c.load({quoted})"
    return {"call": call, "own": own}
