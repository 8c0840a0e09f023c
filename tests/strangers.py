"""Files from strangers: what reads each kind of file, mutations that make valid ones hostile, and a guard around both.

Hypothesis (`test_strangers.py`) and atheris (`benchmarks/fuzz.py`) share all of it.
"""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import sys
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rsa2c import RSA2C
from rsa2c.algorithm.snapshot import Snapshot, pack
from rsa2c.attribution import Explanation
from rsa2c.config import make_config
from rsa2c.errors import RSA2CError
from rsa2c.files import tensor_bytes
from rsa2c.runs.data import RunData
from rsa2c.runs.folder import Run
from rsa2c.runs.sweep import Grid
from rsa2c.zoo import FOLDER

DATA = Path(__file__).parent / "data" / "run-v1"
CORPUS = Path(__file__).parent / "corpus"
SWEEP = b"""# A sweep as a user writes one.
environments: [Pendulum-v1, rsa2c/LQR-v0]
algorithms: [rsa2c-kme, advanced-ac, ppo]
presets: [default]
noise: [0.0, 0.01]
seeds: 3
total_timesteps: {Pendulum-v1: 100000, rsa2c/LQR-v0: 200000}
final_noise: [0.0, 0.01]
gamma: [0.99, 0.98]
"""
BYTES_A_BYTE, BYTES_AT_LEAST = 40, 4 * 2**20
"""Most memory a reader may take: for each byte of the file (JSON and zip directories become Python objects), and for
small files (YAML's nodes, of a file that is refused above 256 kB)."""
FORBIDDEN = (
    "exec", "compile", "pickle.find_class", "marshal.loads", "os.system", "os.exec", "os.fork", "os.posix_spawn",
    "subprocess.Popen", "ctypes.dlopen", "socket.connect", "import",
)  # fmt: skip
"""Audit events of Python that no reader may cause."""


@dataclass(frozen=True)
class Target:
    """A kind of file: a valid one, and what reads it and looks at what was read."""

    name: str
    """Of the file in its folder."""
    valid: bytes
    read: Callable[[Path], Any]


def _model(path: Path) -> None:
    agent = RSA2C.load(path)
    agent.predict(agent.background[:2])


def _state(path: Path) -> None:
    snapshot = Snapshot.load(path, kind="state")
    agent = RSA2C.of(snapshot)
    _ = agent.sizes, agent.kernel_weights, agent.dictionary_sizes
    pack(snapshot, checkpoint=True)


def _explanation(path: Path) -> None:
    explanation = Explanation.load(path)
    _ = explanation.importances, list(explanation)


def _config(path: Path) -> None:
    """As far as `RunData.agent` and a resume go before they make an environment."""
    data = RunData.of(Run(path.parent))
    _ = data.config
    if not data.is_baseline:
        make_config(data.environment, data.document["preset"], **data.settings)


def _npz(name: str) -> Callable[[Path], None]:
    return lambda path: getattr(Run(path.parent), f"read_{name}")()


TARGETS: dict[str, Target] = {
    "model": Target("model.safetensors", (DATA / "model.safetensors").read_bytes(), _model),
    "zoo": Target("zoo.safetensors", (FOLDER / "Pendulum-v1.safetensors").read_bytes(), _model),
    "state": Target("state.safetensors", (DATA / "state.safetensors").read_bytes(), _state),
    "explanation": Target("explanation.npz", (DATA / "explanation.npz").read_bytes(), _explanation),
    "evaluations": Target("evaluations.npz", (DATA / "evaluations.npz").read_bytes(), _npz("evaluations")),
    "attributions": Target("attributions.npz", (DATA / "attributions.npz").read_bytes(), _npz("attributions")),
    "metrics": Target("metrics.csv", (DATA / "metrics.csv").read_bytes(), lambda path: Run(path.parent).rewind(3, 10)),
    "config": Target("config.yaml", (DATA / "config.yaml").read_bytes(), _config),
    "sweep": Target("sweep.yaml", SWEEP, lambda path: Grid.read(path).jobs()),
}


class Violation(Exception):
    """A reader did what no file may make it do."""


_events: list[str] | None = None
_warm: set[str] = set()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _events is not None and event in FORBIDDEN:
        _events.append(f"{event} {str(arguments[0])[:60]}")


@contextmanager
def watched() -> Any:
    """Record forbidden events meanwhile."""
    global _events
    outer, _events = _events, []
    try:
        yield _events
    finally:
        _events = outer


sys.addaudithook(_audit)


def read(target: str, content: bytes, folder: Path) -> RSA2CError | None:
    """Read hostile content; the library's own error where it raised one.

    Any other exception passes through, and so does a `Violation`: something was executed, or more memory taken than
    the file's size allows. Hostile but finite numbers may overflow in what follows, with a warning.
    """
    (folder / target).mkdir(exist_ok=True)
    path = folder / target / TARGETS[target].name
    if target not in _warm:  # a first reading imports modules, such as zip's encodings
        path.write_bytes(TARGETS[target].valid)
        TARGETS[target].read(path)
        _warm.add(target)
    path.write_bytes(content)
    outcome = None
    tracemalloc.start()
    try:
        with watched() as events, warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                TARGETS[target].read(path)
            except RSA2CError as error:
                outcome = error
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if events:
        raise Violation(f"reading caused {events}")
    if peak > BYTES_A_BYTE * len(content) + BYTES_AT_LEAST:
        raise Violation(f"{peak:,} bytes were taken for a file of {len(content):,}")
    if outcome is not None and len(str(outcome)) > 4 * len(content) + 2000:
        raise Violation(f"the message has {len(str(outcome)):,} characters")
    return outcome


# Mutations

NUMBERS = [0, 1, -1, 2, 3, 7, 255, 2**31, 2**32, 2**53, 2**60, 2**63 - 1, -(2**62)]
HOSTILE: list[Any] = [
    *NUMBERS, None, True, 0.0, -1.5, 1e-320, 1e308, "", "auto", "x", "../x", "\0", "nan", [], {}, [[]], {"a": {}},
    [None], ["a", "b"], "a" * 3000, [1.0, 2.0],
]  # fmt: skip
LITERALS = ["NaN", "Infinity", "1e999", "-1e999", "1" * 400, "1" * 5000, '"\\ud800"', "[" * 500 + "]" * 500]
DTYPES = ["F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X", "", 3]
DESCRS = [
    "<f8", ">f8", "<f4", "<i8", "|b1", "|u1", "<U0", "<U4", "<U999999999", "|O", "|V0", "|V8", "<M8[s]", "<c16", "f8",
]  # fmt: skip
TAGS = [
    "!!python/object/apply:os.system [id]", "!!python/name:os.system", "!!python/module:os", "!!python/tuple [1]",
    "!!binary aGk=", "!!set {a}", "!!timestamp x", "!!int ''", "!!float ''", "!!bool x", "!!omap [a: 1]", "2001-99-99",
    "0x" + "f" * 6000, "1:" * 200 + "1", "9" * 5000, ".inf", ".nan", "=", "<<: *a", "*a", "&a [*a]", "? [a]", "[" * 700,
    "{a: " * 300, "\\x00", "|\n  text", "~", "-1", "1e999", "yes", "../../etc/passwd", "/etc/passwd", "os:system",
]  # fmt: skip


def mutated(target: str, content: bytes, rng: random.Random) -> bytes:
    """The content made hostile: a few bytes, or a value of the format it is in."""
    name = TARGETS[target].name
    special: Callable[[bytes, random.Random], bytes] = _damaged
    if rng.random() < 0.7:
        special = next(
            mutation
            for suffix, mutation in ((".safetensors", _hostile_tensors), (".npz", _hostile_npz), ("", _hostile_text))
            if name.endswith(suffix)
        )
    try:
        return special(content, rng)
    except Exception:  # damaged beyond its format already
        return _damaged(content, rng)


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Flipped, cut, repeated or inserted bytes."""
    data = bytearray(content or b"\0")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data)) if data else 0
        how = rng.randrange(5)
        if how == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1 and data:
            data[at] = rng.randrange(256)
        elif how == 2:
            del data[at:]
        elif how == 3:
            data[at:at] = data[at : at + rng.randint(1, 64)]
        else:
            data[at:at] = struct.pack("<q", rng.choice(NUMBERS))
    return bytes(data)


def _hostile_tensors(content: bytes, rng: random.Random) -> bytes:
    """A header or metadata entry replaced, or a tensor by another that does not fit."""
    length = struct.unpack("<Q", content[:8])[0]
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = json.loads(header["__metadata__"]["rsa2c"])
    how, name = rng.randrange(4), rng.choice(sorted(set(header) - {"__metadata__"}))
    if how == 0:
        entry = header[name]
        key = rng.choice(["dtype", "shape", "data_offsets"])
        entry[key] = rng.choice(DTYPES) if key == "dtype" else [rng.choice(NUMBERS) for _ in range(rng.randrange(4))]
    elif how == 1:
        tensors = _tensors(header, body)
        tensors[name] = _misfit(tensors[name], rng)
        return tensor_bytes(tensors, {**metadata, "kind": str(metadata.get("kind"))})
    elif how == 2:
        metadata = _replaced(metadata, rng)
        header["__metadata__"]["rsa2c"] = json.dumps(metadata)
    else:
        text = json.dumps(_replaced(metadata, rng, marked=True))
        header["__metadata__"]["rsa2c"] = text.replace('"MARK"', rng.choice(LITERALS))
    text = json.dumps(header).encode()
    declared = len(text) if rng.random() < 0.9 else rng.choice(NUMBERS) & (2**64 - 1)
    return struct.pack("<Q", declared) + text + body


def _tensors(header: dict[str, Any], body: bytes) -> dict[str, np.ndarray]:
    kinds = {"F64": np.float64, "I64": np.int64, "F32": np.float32}
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _misfit(array: np.ndarray, rng: random.Random) -> np.ndarray:
    array = np.array(array)
    how = rng.randrange(6)
    if how == 0 and array.size:
        values = [0, -1] if array.dtype.kind == "i" else [np.nan, np.inf, 1e308, -1, 0]
        array.flat[rng.randrange(array.size)] = rng.choice(values)
    elif how == 1:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice([np.float32, np.int64, np.uint8, np.bool_, np.float16]))
    elif how == 2:
        array = array[: len(array) // 2]
    elif how == 3:
        array = array[None]
    elif how == 4:
        array = array.reshape(-1)
    else:
        array = np.zeros((0, 3))
    return array


def _replaced(document: Any, rng: random.Random, marked: bool = False) -> Any:
    """The document with one of its values, at any depth, replaced, removed or added."""
    if isinstance(document, dict) and document and rng.random() < 0.85:
        key = rng.choice(sorted(document, key=str))
        if rng.random() < 0.1 and not marked:
            return {other: value for other, value in document.items() if other != key}
        return {**document, key: _replaced(document[key], rng, marked)}
    if isinstance(document, list) and document and rng.random() < 0.6:
        at = rng.randrange(len(document))
        return [*document[:at], _replaced(document[at], rng, marked), *document[at + 1 :]]
    return "MARK" if marked else rng.choice(HOSTILE)


def _hostile_npz(content: bytes, rng: random.Random) -> bytes:
    """A member replaced by one of another header, size or shape, by one that is compressed, or left out."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()[:16]}
    name = rng.choice(sorted(members))
    how, compressed = rng.randrange(5), False
    if how == 0:
        shape = tuple(rng.choice(NUMBERS) for _ in range(rng.randrange(4)))
        header = {"descr": rng.choice(DESCRS), "fortran_order": rng.random() < 0.5, "shape": shape}
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, header)
        members[name] = stream.getvalue() + members[name][128 : 128 + rng.choice([0, 8, 64, 10**6])]
    elif how == 1:
        stream = io.BytesIO()
        old = np.lib.format.read_array(io.BytesIO(members[name]))
        np.lib.format.write_array(stream, old.astype(object) if rng.random() < 0.2 else _misfit(old, rng))
        members[name] = stream.getvalue()
    elif how == 2:
        members[name] = _damaged(members[name], rng)
    elif how == 3:
        del members[name]
    else:
        compressed = True
        members[name] += bytes(rng.choice([0, 10**5, 10**6]))
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
            for other, data in members.items():
                archive.writestr(other, data)
            if rng.random() < 0.1 and name in members:
                archive.writestr(name, members[name])
    return buffer.getvalue()


def _hostile_text(content: bytes, rng: random.Random) -> bytes:
    """A value, a line's value, or a line, replaced by what YAML and CSV readers stumble over."""
    if rng.random() < 0.4 and b"*" not in content:  # a bomb of aliases would go off here
        document = yaml.safe_load(content)
        return yaml.safe_dump(_replaced(document, rng), sort_keys=False).encode()
    lines = content.decode().splitlines() or [""]
    at = rng.randrange(len(lines))
    how = rng.randrange(5)
    if how == 0:
        key, _, _ = lines[at].partition(":")
        lines[at] = f"{key}: {rng.choice(TAGS)}"
    elif how == 1:
        lines[at] = rng.choice(TAGS)
    elif how == 2:
        key, _, _ = lines[at].partition(":")
        lines[at] = f"{key}: {json.dumps(rng.choice(HOSTILE))}"
    elif how == 3:
        cells = lines[at].split(",")
        cells[rng.randrange(len(cells))] = rng.choice(["", "x", "nan", "inf", "1e999", '"', "9" * 5000, "\0", "1,2"])
        lines[at] = ",".join(cells)
    else:
        merge = rng.random() < 0.5
        return "\n".join([*lines[:at], *_bomb(rng.randint(2, 30), merge), *lines[at:]]).encode()
    return "\n".join(lines).encode() + b"\n"


def _bomb(depth: int, merge: bool) -> list[str]:
    """Aliases of aliases: 2^depth values, in lists or merged mappings, in a few hundred bytes."""
    if merge:
        return ["b0: &b0 {k: 1}", *(f"b{i}: &b{i} {{<<: [*b{i - 1}, *b{i - 1}]}}" for i in range(1, depth))]
    return ["gamma: &b0 [1]", *(f"gamma: &b{i} [*b{i - 1}, *b{i - 1}]" for i in range(1, depth))]


def corpus(target: str) -> list[tuple[str, bytes]]:
    """The kept inputs of a target, by name."""
    return [(path.name, base64.b64decode(path.read_bytes())) for path in sorted((CORPUS / target).glob("*.b64"))]


def keep(target: str, name: str, content: bytes) -> Path:
    """Keep an input: as base64 text, which no tool takes for what it pretends to be."""
    path = CORPUS / target / f"{name}.b64"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.encodebytes(content))
    return path
