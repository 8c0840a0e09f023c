"""YAML documents of plain values, limited in size, depth and number."""

from __future__ import annotations

import math
from typing import Any

import yaml

from rsa2c.errors import FileFormatError
from rsa2c.files.disk import PathLike, read_bytes

LARGEST_YAML, MOST_NODES, DEEPEST_YAML = 2**18, 10_000, 50
"""Limits of a YAML file: bytes, values with every alias expanded, levels of nesting. Ours have 4 kB, 300 and 4."""


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
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node) if len(node.value) <= 80 else 2**63
        if number.bit_length() > 63:
            raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark)
        return number


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)


def read_yaml(path: PathLike, remedy: str = "Restore it from a copy") -> Any:
    """The document of a YAML file: plain values only, and not too many even with every alias expanded."""
    content = read_bytes(path)
    try:
        if len(content) > LARGEST_YAML:
            raise ValueError(f"it has {len(content):,} bytes, at most {LARGEST_YAML:,} are allowed")
        loader = _PlainLoader(content)
        try:
            node = loader.get_single_node()
            if _expanded_size(node, {}) > MOST_NODES:
                raise ValueError(f"it has more than {MOST_NODES:,} values with its aliases expanded")
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{path} is not YAML that rsa2c reads ({error}). {remedy}.") from error


def _expanded_size(node: yaml.Node | None, known: dict[int, float]) -> float:
    """Values under a node with every alias expanded; infinite if one contains itself."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        children = [child for pair in node.value for child in (pair if isinstance(pair, tuple) else (pair,))]
        known[id(node)] = 1 + sum(_expanded_size(child, known) for child in children)
    return known[id(node)]
