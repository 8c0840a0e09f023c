"""Files that are whole or absent, and readers that trust nothing: atomic writes, safetensors, NPZ, YAML.

Nothing is pickled. Whatever is wrong with a file becomes an error that names it and the remedy, and no array
is allocated before its size has been checked against the file's. Files carry a format version; `UPGRADES` brings
older ones to ours as they are read.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors
import safetensors.numpy
import yaml

from rsa2c.errors import DataError, FileFormatError, NotFoundError, RSA2CError

PathLike = str | os.PathLike[str]
Tensors = dict[str, np.ndarray]
Metadata = dict[str, Any]
Upgrade = TypeVar("Upgrade", bound=Callable[..., Any])

FORMAT = "rsa2c"
VERSION = 2
"""Version of the format of models, checkpoints and `config.yaml`."""
UPGRADES: dict[int, Callable[[Tensors, Metadata], tuple[Tensors, Metadata]]] = {}
"""What makes tensors and metadata of version n those of version n + 1, where they differ."""
LARGEST_YAML, MOST_NODES, DEEPEST_YAML = 2**18, 10_000, 50
"""Bytes of a YAML file, values in it with every alias written out, and how deep they nest; ours: 4 kB, 300, 4."""
_METADATA_KEY = "rsa2c"
_NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|](?:[biuf]\d{1,2}|U\d{1,4}))', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,19}, ?)*(?:\d{1,19})?)\), \} *\n"
)


class StorageError(RSA2CError, OSError):
    """The disk refused: full, read-only, or held by another process."""


class HeldError(StorageError):
    """A run that another process is writing."""


def write_atomically(path: PathLike, content: bytes) -> None:
    """Replace `path` by `content`: a reader, or a crash at any moment, finds the old file or the new one."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
    except FileNotFoundError:
        raise StorageError(f"{path} could not be written: the folder {path.parent} does not exist. Make it.") from None
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. "
            "Free some space, or choose a folder you may write to."
        ) from error


@contextlib.contextmanager
def holding(folder: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold a folder's lock: a second process is refused, or waits. The lock ends with its process, however that
    ends."""
    import fcntl

    try:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StorageError(f"{what} {folder} cannot be locked: {error.strerror or error}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise HeldError(
                f"{what} {folder} is being written by another process. Wait for it, or stop it first."
            ) from None
        except OSError as error:
            raise StorageError(f"{what} {folder} cannot be locked: {error.strerror or error}.") from error
        yield
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{path} could not be deleted: {error.strerror or error}. Delete it, or choose a folder you may write to."
        ) from error


def sync_folder(folder: Path) -> None:
    """Make new names in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bytes(path: PathLike) -> bytes:
    """The file's content; a missing file's error names the nearest names beside it."""
    path = Path(path)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist.{near(path)}") from None
    except IsADirectoryError:
        raise StorageError(f"{path} is a folder, a file is needed.") from None
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error


def near(path: Path) -> str:
    """" Did you mean ...?" from the names beside `path`, or the empty string when none is near."""
    try:
        names = sorted({entry.name for entry in path.parent.iterdir()} - {path.name})
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(str(path.parent / name) for name in close)}?" if close else ""


def write_tensors(path: PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write a model or checkpoint as safetensors; equal content gives equal bytes."""
    write_atomically(path, tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> bytes:
    """The file `write_tensors` writes; `metadata["kind"]` says what it is, `"model"` or `"state"`.

    safetensors orders several metadata keys at random, so ours is one key that holds canonical JSON: sorted
    keys, no white space, no NaN.
    """
    if not isinstance(metadata.get("kind"), str):
        raise DataError(f"metadata must name a kind, 'model' or 'state', got {metadata.get('kind')!r}.")
    document = {**metadata, "format": FORMAT, "version": VERSION}
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"metadata must be JSON without NaN or infinity ({error}); use a tensor.") from error
    # safetensors reads raw memory: a view that is not contiguous would be saved scrambled.
    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    return safetensors.numpy.save(contiguous, {_METADATA_KEY: text})


def read_tensors(
    path: PathLike, kind: str | None = None, upgrades: Mapping[int, Upgrade] | None = None
) -> tuple[Tensors, Metadata]:
    """Tensors and metadata of a file `write_tensors` wrote, of the given kind (or of any), as of our version."""
    content = read_bytes(path)

    def refusal(what: str, remedy: str = "Restore it from a copy, or train again") -> FileFormatError:
        return FileFormatError(f"{path} is not a usable {kind or 'rsa2c'} file: {what}. {remedy}.")

    try:
        # safetensors checks every offset, shape and size against the length of `content` first.
        tensors = {name: np.array(array) for name, array in safetensors.numpy.load(content).items()}
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")].decode())
    except safetensors.SafetensorError as error:
        raise refusal(f"it is truncated, damaged or no safetensors file ({error})") from error
    except (KeyError, ValueError, TypeError, MemoryError, OverflowError, RecursionError) as error:
        raise refusal(f"its header is damaged ({type(error).__name__}: {error})") from error
    text = (header.get("__metadata__") or {}).get(_METADATA_KEY)
    if text is None:
        raise refusal("it carries no rsa2c metadata", "Give a safetensors file that rsa2c wrote")
    try:
        metadata = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise refusal(f"its metadata is not JSON ({error})") from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise refusal("its metadata names another format", "Give a safetensors file that rsa2c wrote")
    if kind is not None and metadata.get("kind") != kind:
        raise refusal(f"it is of kind {metadata.get('kind')!r}", f"Give a file of kind {kind!r}")
    steps = pending(metadata.get("version"), upgrades or {}, refusal)
    try:
        for upgrade in steps:
            tensors, metadata = upgrade(tensors, metadata)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise refusal(f"it cannot be brought to version {VERSION} ({type(error).__name__}: {error})") from error
    return tensors, {**metadata, "version": VERSION}


def pending(version: Any, upgrades: Mapping[int, Upgrade], refusal: Callable[..., FileFormatError]) -> list[Upgrade]:
    """The upgrades that a file of some version needs, in order; a version that is none, or newer than ours, is
    refused."""
    if type(version) is not int or version < 1:
        raise refusal(f"its format version is {version!r}")
    if version > VERSION:
        what = f"its format version is {version}, this rsa2c reads versions up to {VERSION}"
        raise refusal(what, "Upgrade with: pip install -U rsa2c")
    return [upgrades[number] for number in range(version, VERSION) if number in upgrades]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _whole(text: str) -> int:
    if len(text) > 19:
        raise ValueError(f"the number {text[:20]}... is too large")
    return int(text)


def check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, str], **sizes: int) -> None:
    """Refuse arrays that do not fit together: "n d" names an array's axes, and axes of one name have one size."""
    known = {"1": 1, **sizes}
    for name, axes in shapes.items():
        shape, names = arrays[name].shape, axes.split()
        if len(shape) != len(names) or any(known.setdefault(a, n) != n for a, n in zip(names, shape, strict=True)):
            wanted = ", ".join(str(known.get(axis, axis)) for axis in names)
            raise ValueError(f"{name} must have the shape ({wanted}) to go with the others, got {shape}")


def write_npz(path: PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as an uncompressed NPZ file; equal content gives equal bytes."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def read_npz(
    path: PathLike, shapes: Mapping[str, str], optional: Mapping[str, str] | None = None, text: str | None = None
) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file that `write_npz` wrote, named and shaped as `shapes` says (see `check_shapes`), and
    the optional ones that are there. All are numbers but the one called `text`, which has strings."""
    content = read_bytes(path)
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            there = {name.removesuffix(".npy") for name in archive.namelist()}
            wanted = {**shapes, **{name: axes for name, axes in (optional or {}).items() if name in there}}
            for name in wanted:
                member = archive.getinfo(f"{name}.npy")
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                    raise ValueError(f"{name} is compressed, or larger than the file")
                arrays[name] = _array(archive.read(member))
                if (arrays[name].dtype.kind == "U") != (name == text):
                    raise ValueError(f"{name} has entries of type {arrays[name].dtype}")
        check_shapes(arrays, wanted)
    except (zipfile.BadZipFile, LookupError, TypeError, ValueError, EOFError, OSError, RuntimeError) as error:
        raise FileFormatError(f"{path} is damaged or not ours: {error}. Restore it from a copy.") from error
    return arrays


def _array(content: bytes) -> np.ndarray:
    """An array in NPY format 1.0, exactly as NumPy writes one; a header that promises more than there is is refused."""
    header = _NPY_HEADER.match(content, 10)
    if content[:8] != b"\x93NUMPY\x01\x00" or header is None:
        raise ValueError("an array's header is damaged, or of a kind that is not used here")
    dtype = np.dtype(header[1].decode())
    shape = tuple(map(int, header[3].replace(b",", b" ").split()))
    size = len(content) - header.end()
    if int.from_bytes(content[8:10], "little") != header.end() - 10 or math.prod(shape) * dtype.itemsize != size:
        raise ValueError("an array's header does not match its data")
    flat = np.frombuffer(content, dtype, offset=header.end()) if size else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C").copy()


class _PlainLoader(yaml.SafeLoader):
    """Text, numbers of at most 64 bits, lists and mappings, nested a few times."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        if self.depth > DEEPEST_YAML:
            raise yaml.composer.ComposerError(None, None, f"values are nested more than {DEEPEST_YAML} times", None)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node) if len(node.value) <= 80 else 2**63
        if number.bit_length() > 63:
            raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark)
        return number


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)


def read_yaml(path: PathLike, remedy: str = "Restore it from a copy") -> Any:
    """The document of a YAML file: plain values only, not many even where they are repeated by aliases."""
    content = read_bytes(path)
    try:
        if len(content) > LARGEST_YAML:
            raise ValueError(f"it has {len(content):,} bytes, {LARGEST_YAML:,} are the most")
        loader = _PlainLoader(content)
        try:
            node = loader.get_single_node()
            if _written_out(node, {}) > MOST_NODES:
                raise ValueError(f"it has more than {MOST_NODES:,} values, aliases written out")
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path} is not YAML that rsa2c reads ({error}). {remedy}.") from error


def _written_out(node: yaml.Node | None, known: dict[int, float]) -> float:
    """Values under a node with every alias counted as what it stands for; infinite where one holds itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        children = [child for pair in node.value for child in (pair if isinstance(pair, tuple) else (pair,))]
        known[id(node)] = 1 + sum(_written_out(child, known) for child in children)
    return known[id(node)]
