"""YAML and JSON reader that gives the same values as kubectl, and a writer of what it reads.

kubectl converts YAML to JSON with Go's YAML 1.1 reader: `on` is true, `1e3` and `0x10` are numbers,
dates and `1:30` stay strings. This is PyYAML's SafeLoader with the scalar patterns of go-yaml v2
(resolve.go). JSON is read as YAML.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from inferometer_api.rules import Where

MAXIMUM_BYTES = 1 << 20
"""The largest text that is read; an API server accepts little more."""
_MAXIMUM_VALUES = 100_000
_TAG = "tag:yaml.org,2002:"
_SCALARS = {f"{_TAG}{name}" for name in ("str", "null", "bool", "int", "float")}
_PATTERNS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|yes|Yes|YES|on|On|ON|y|Y|false|False|FALSE|no|No|NO|off|Off|OFF|n|N",
    "int": r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9_]{0,98})",
    # Go keeps a number that overflows as a string: two digits of exponent never do.
    "float": r"[-+]?(\.[0-9]{1,99}|[0-9]{1,99}(\.[0-9]{0,99})?)([eE][-+]?[0-9]{1,2})?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": r"<<",
}


class _Loader(yaml.SafeLoader):
    """SafeLoader that resolves plain scalars as go-yaml does."""

    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012 - as there


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern in _PATTERNS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), None)


class _Dumper(yaml.SafeDumper):
    """SafeDumper that quotes what either reader takes as another value: `y`, `08`, dates."""


_Dumper.yaml_implicit_resolvers = {
    **yaml.SafeDumper.yaml_implicit_resolvers,
    **_Loader.yaml_implicit_resolvers,
}
_Dumper.add_representer(
    str,
    lambda dumper, value: dumper.represent_scalar(
        f"{_TAG}str", value, style="|" if "\n" in value else None
    ),
)


class UnreadableTextError(ValueError):
    """A text is not a single YAML or JSON document; the message gives the reason and the place."""

    def __init__(self, fact: str, mark: yaml.Mark | None = None) -> None:
        place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        super().__init__(f"{place}{fact}")


@dataclass(slots=True)
class YamlText:
    """The data of a text, and what it does not keep of each value, by its place."""

    data: Any = None
    lines: dict[Where, int] = field(default_factory=dict)
    """Lines from 1."""
    decimals: dict[Where, str] = field(default_factory=dict)
    """Numbers with a point, as they are written: 1.20."""


def read_yaml(text: str) -> YamlText:
    """Return the one document in a YAML or JSON text; an empty text holds None.

    Raises UnreadableTextError for duplicate keys, several documents, unknown tags and recursive
    aliases, and for more than 1 MiB or 100,000 values.
    """
    if len(text.encode(errors="surrogatepass")) > MAXIMUM_BYTES:
        raise UnreadableTextError(f"the text is larger than {MAXIMUM_BYTES // 2**20} MiB")
    read = YamlText()
    try:
        documents = list(yaml.compose_all(_without_tabs_of_json(text), _Loader))
        nodes = [node for node in documents if (node.tag, node.value) != (f"{_TAG}null", "")]
        if len(nodes) > 1:
            fact = f"found {len(nodes)} documents; a file holds one: split it at ---"
            raise UnreadableTextError(fact, nodes[1].start_mark)
        for node in nodes:
            read.data = _value(node, (), read)
    except yaml.MarkedYAMLError as error:
        fact = " ".join(part for part in (error.problem, error.note) if part) or "a syntax error"
        raise UnreadableTextError(_with_hint(fact), error.problem_mark) from error
    except yaml.reader.ReaderError as error:
        fact = f"the character U+{error.character:04X} at position {error.position} is not allowed"
        raise UnreadableTextError(fact) from error
    except RecursionError as error:
        raise UnreadableTextError("lists and mappings are nested too deeply") from error
    return read


def write_yaml(data: Any) -> str:
    """Return data as YAML that `read_yaml`, kubectl and PyYAML read as the same values."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    return text


def _without_tabs_of_json(text: str) -> str:
    """Return a JSON text with spaces for tabs, which JSON has between its values only."""
    return text.replace("\t", " ") if text.lstrip().startswith("{") else text


def _with_hint(fact: str) -> str:
    if "'\\t'" in fact:
        return "found a tab; indent YAML with spaces"
    if fact.startswith("mapping values are not allowed"):
        return f"{fact}; check the indentation, and quote a text that contains a colon"
    return fact


def _value(node: yaml.Node, where: Where, read: YamlText, *parents: yaml.Node) -> Any:
    """Return the data of a node whose place is `where`, and record the lines of all its places."""
    lines = read.lines
    lines.setdefault(where, node.start_mark.line + 1)
    if len(lines) > _MAXIMUM_VALUES:
        raise UnreadableTextError(f"more than {_MAXIMUM_VALUES} values", node.start_mark)
    if node in parents:
        raise UnreadableTextError("an alias refers to its own parent", node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        if node.tag == f"{_TAG}float":
            read.decimals[where] = node.value
        return _scalar(node)
    if node.tag not in {f"{_TAG}map", f"{_TAG}seq"}:
        raise UnreadableTextError(f"the tag {node.tag} is unknown", node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        items = enumerate(node.value)
        return [_value(item, (*where, index), read, node, *parents) for index, item in items]
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
        if key is None:
            raise UnreadableTextError("a key must be a text", key_node.start_mark)
        key = key if isinstance(key, str) else json.dumps(key)  # as in JSON
        place = (*where, key)
        if key in found:
            fact = f'the key "{key}" already appears in line {lines[place]}'
            raise UnreadableTextError(fact, key_node.start_mark)
        lines[place] = key_node.start_mark.line + 1
        found[key] = _value(value_node, place, read, node, *parents)
    return found


def _scalar(node: yaml.ScalarNode) -> Any:
    if node.tag == f"{_TAG}merge":
        fact = "merge keys (<<) are not supported; write the members out"
        raise UnreadableTextError(fact, node.start_mark)
    if node.tag not in _SCALARS:
        raise UnreadableTextError(f"the tag {node.tag} is unknown", node.start_mark)
    try:
        value = _Loader("").construct_object(node)
    except (ValueError, KeyError) as error:
        fact = f"{node.value!r} is not a {node.tag.removeprefix(_TAG)}"
        raise UnreadableTextError(fact, node.start_mark) from error
    if isinstance(value, str):  # JSON escapes a character beyond U+FFFF in two halves
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return value
