"""Files that are whole or absent, and readers that trust nothing: atomic writes, locks, safetensors, NPZ, YAML.

Nothing is pickled. Whatever is wrong with a file becomes an error that names the file and the remedy, and no array
is allocated before its size has been checked against the file's. Files carry a format version; older ones are
upgraded as they are read (`versions`).
"""

from rsa2c.files.compact import compacted
from rsa2c.files.disk import (
    HeldError,
    PathLike,
    StorageError,
    append_lines,
    holding,
    near,
    read_bytes,
    remove,
    sync_folder,
    whole_lines,
    write_atomically,
)
from rsa2c.files.documents import DEEPEST_YAML, LARGEST_YAML, MOST_NODES, read_yaml
from rsa2c.files.growing import append_rows, mapped
from rsa2c.files.npz import read_npz, write_npz
from rsa2c.files.tensors import check_shapes, read_metadata, read_tensors, tensor_bytes, write_tensors
from rsa2c.files.versions import FORMAT, Metadata, Tensors, Upgrade, pending

__all__ = [
    "DEEPEST_YAML",
    "FORMAT",
    "LARGEST_YAML",
    "MOST_NODES",
    "HeldError",
    "Metadata",
    "PathLike",
    "StorageError",
    "Tensors",
    "Upgrade",
    "append_lines",
    "append_rows",
    "check_shapes",
    "compacted",
    "holding",
    "mapped",
    "near",
    "pending",
    "read_bytes",
    "read_metadata",
    "read_npz",
    "read_tensors",
    "read_yaml",
    "remove",
    "sync_folder",
    "tensor_bytes",
    "whole_lines",
    "write_atomically",
    "write_npz",
    "write_tensors",
]
