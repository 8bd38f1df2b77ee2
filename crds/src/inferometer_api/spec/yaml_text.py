"""Which data does a YAML or JSON text hold, read as kubectl reads it?

kubectl turns YAML into JSON by Go's YAML 1.1 reader before it is sent, so that the same file must
mean the same here: `on` is true, `1e3` and `0x10` are numbers, dates and `1:30` stay strings.
Source: resolve.go of go-yaml v2, and sigs.k8s.io/yaml for keys.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from typing_extensions import override

from inferometer_api.rules import Where

MAXIMUM_BYTES = 1 << 20
"""The most that a file may have; an API server takes little more."""
_MAXIMUM_NODES = 100_000

_TRUE = frozenset(["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"])
_FALSE = frozenset(["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"])
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_SPECIAL = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + word: math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{f"-{word}": -math.inf for word in (".inf", ".Inf", ".INF")},
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGERS = (
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0[bB][01]+"), 2),
    (re.compile(r"[-+]?0[oO]?[0-7]+"), 8),
    (re.compile(r"[-+]?(0|[1-9][0-9]*)"), 10),
)
_PLAIN_TAG = "plain"
_STRING_TAG = "tag:yaml.org,2002:str"
_SCALAR_TAGS = {
    _PLAIN_TAG,
    *(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "timestamp")),
}
_COLLECTION_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}


class UnreadableTextError(ValueError):
    """A text is no single YAML or JSON document; the message says why, and where."""

    def __init__(self, fact: str, mark: yaml.Mark | None = None) -> None:
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        super().__init__(f"{place}{fact}")


@dataclass(slots=True)
class YamlText:
    """The data of a text, and the line (from 1) that each value stands on, by its place."""

    data: Any
    lines: dict[Where, int] = field(default_factory=dict)


def read_yaml(text: str) -> YamlText:
    """Return the one document that a YAML or JSON text holds; empty text holds None.

    Duplicate keys, several documents, unknown tags and recursive aliases are refused by
    UnreadableTextError.
    """
    if len(text.encode(errors="surrogatepass")) > MAXIMUM_BYTES:
        raise UnreadableTextError(f"the text is larger than {MAXIMUM_BYTES // 2**20} MiB")
    if text.lstrip().startswith("{") and (found := _json(text)) is not None:
        return found
    try:
        nodes = [node for node in _documents(text) if not _is_empty(node)]
    except yaml.MarkedYAMLError as error:
        fact = " ".join(part for part in (error.problem, error.note) if part) or "a syntax error"
        raise UnreadableTextError(_explained(fact), error.problem_mark) from error
    except yaml.reader.ReaderError as error:
        raise UnreadableTextError(
            f"the character U+{error.character:04X} at position {error.position} is not allowed"
        ) from error
    except yaml.YAMLError as error:
        raise UnreadableTextError(f"the text is no YAML: {error}") from error
    except RecursionError as error:
        raise UnreadableTextError("lists and mappings are nested too deeply") from error
    if len(nodes) > 1:
        raise UnreadableTextError(
            f"{len(nodes)} documents; a file holds one: split it at ---", nodes[1].start_mark
        )
    builder = _Builder()
    data = builder.value(nodes[0], ()) if nodes else None
    return YamlText(data, builder.lines)


def read_value(text: str) -> Any:
    """Return the value of a short YAML text from a command line.

    A number with decimals is taken as it is written, since no field is a float and a rate with
    decimals is a string.
    """
    value = read_yaml(text).data
    if isinstance(value, float) and not value.is_integer():
        return text.strip()
    return value


class _Loader(yaml.SafeLoader):
    """Composes nodes, and leaves it to us what a plain scalar is."""

    @override
    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN_TAG if implicit[0] else _STRING_TAG
        found: str = super().resolve(  # type: ignore[no-untyped-call] # PyYAML's stubs
            kind, value, implicit
        )
        return found


def _documents(text: str) -> Iterator[yaml.Node]:
    nodes: Iterator[yaml.Node] = yaml.compose_all(text, Loader=_Loader)
    return nodes


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "" and node.tag == _PLAIN_TAG


def _explained(fact: str) -> str:
    if "'\\t'" in fact:
        return "a tab; YAML is indented by spaces"
    if fact.startswith("mapping values are not allowed"):
        return f"{fact}; is the indentation right, or does a text with a colon lack its quotes?"
    return fact


def _json(text: str) -> YamlText | None:
    """Return the data of a JSON text, None where it is none: YAML may begin with a brace too."""
    try:
        return YamlText(
            json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
        )
    except (json.JSONDecodeError, RecursionError):
        return None


def _no_constant(name: str) -> None:
    raise UnreadableTextError(f"{name} is no number in JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnreadableTextError(f'the key "{twice}" stands twice in one mapping')
    return found


class _Builder:
    """Builds plain data from YAML nodes and remembers their lines."""

    def __init__(self) -> None:
        self.lines: dict[Where, int] = {}
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.Node, where: Where) -> Any:
        """Return the plain data of a node, which stands at `where`."""
        self._count += 1
        if self._count > _MAXIMUM_NODES:
            raise UnreadableTextError(f"more than {_MAXIMUM_NODES} values", node.start_mark)
        if id(node) in self._open:
            raise UnreadableTextError("an alias stands for what it is part of", node.start_mark)
        self.lines.setdefault(where, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return scalar(node)
        if node.tag not in _COLLECTION_TAGS:
            raise UnreadableTextError(f"the tag {node.tag} is unknown", node.start_mark)
        self._open.add(id(node))
        found: Any
        if isinstance(node, yaml.SequenceNode):
            found = [self.value(item, (*where, index)) for index, item in enumerate(node.value)]
        else:
            found = self._mapping(node, where)
        self._open.discard(id(node))
        return found

    def _mapping(self, node: yaml.Node, where: Where) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                merged.append(value_node)
                continue
            key = _key(key_node)
            place = (*where, key)
            if key in found:
                raise UnreadableTextError(
                    f'the key "{key}" stands in line {self.lines[place]} already',
                    key_node.start_mark,
                )
            self.lines[place] = key_node.start_mark.line + 1
            found[key] = self.value(value_node, place)
        for each in merged:
            for key, value in self._merged(each, where):
                found.setdefault(key, value)
        return found

    def _merged(self, node: yaml.Node, where: Where) -> Iterator[tuple[str, Any]]:
        """Yield what `<<` brings in: the members of a mapping, or of each in a list."""
        for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(each, yaml.MappingNode):
                raise UnreadableTextError("<< takes a mapping, or a list of them", each.start_mark)
            yield from self.value(each, where).items()


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "<<" and node.tag == _PLAIN_TAG


def _key(node: yaml.Node) -> str:
    """Return a key as JSON has it: always a string."""
    key = scalar(node) if isinstance(node, yaml.ScalarNode) else None
    match key:
        case str():
            return key
        case bool():
            return str(key).lower()
        case int() | float():
            return json.dumps(key)
        case _:
            raise UnreadableTextError("a key must be a text", node.start_mark)


def scalar(node: yaml.ScalarNode) -> str | bool | int | float | None:
    """Return the value of a scalar as go-yaml resolves it."""
    text: str = node.value
    if node.tag == _STRING_TAG:
        return text
    if node.tag in _SCALAR_TAGS:
        return _plain(text)
    raise UnreadableTextError(f"the tag {node.tag} is unknown", node.start_mark)


def _plain(text: str) -> str | bool | int | float | None:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    for pattern, base in _INTEGERS:
        if len(digits) < 100 and text[0] != "." and pattern.fullmatch(digits):
            return int(digits.lower().replace("0o", "0", 1) if base == 8 else digits, base)
    number = float(digits) if _FLOAT.fullmatch(digits) else math.inf
    return number if math.isfinite(number) else text
