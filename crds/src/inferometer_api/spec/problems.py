"""Messages about invalid runs: the place, what was found, and what is allowed.

The wording comes from the schema, as in the reference pages, never from pydantic.
"""

import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import getitem
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import override

from inferometer_api.document import Document
from inferometer_api.patterns import MEANINGS
from inferometer_api.rules import FaultsError, Where, format_path
from inferometer_api.schema import Schema, json_schema
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.wording import as_sentence

_SHORT = 60
_USER = re.compile(r"^([A-Za-z][\w.+-]*://|(?!file:)(?=[^/@]*:)).*@", re.DOTALL)
"""The part of an address before the host, which may contain a password."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a run."""

    path: str
    """Path of the field: spec.scenarios[1].server.targetQps; empty: the whole file."""
    message: str
    """What was found, what is allowed, and what to do."""
    line: int | None = None
    """Line of the file, from 1, if known."""

    @override
    def __str__(self) -> str:
        """Return the problem as one line."""
        line = "" if self.line is None else f"line {self.line}: "
        path = f"{self.path}: " if self.path else ""
        return f"{line}{path}{self.message}"


def describe_errors(
    error: ValidationError,
    data: Any,
    model: type[Document] = BenchmarkRun,
    decimals: Mapping[Where, str] = MappingProxyType({}),
) -> Iterator[tuple[Where, str]]:
    """Yield the path and a sentence for each error of pydantic in a document of this model.

    `decimals` has numbers with a point as they are written.
    """
    root = _Root(model, decimals)
    for details in error.errors(include_url=False, include_input=False):
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, FaultsError):
            for fault in cause.faults:
                where = (*details["loc"], *fault.where)
                # The path is printed before the message and may be its subject.
                message = fault.message.removeprefix(f"{where[-1]} ") if where else fault.message
                yield _as_written(where, data), _with_found(message, data, where, root)
        else:
            yield _as_written(_place(details["loc"]), data), _worded(details, data, root)


def nearest(name: str, names: list[str]) -> str | None:
    """Return the most similar of the names, None if none is similar."""
    by_plain = {_plain(each): each for each in names}
    begun = [each for each in by_plain if len(name) > 2 and each.startswith(_plain(name))]
    near = begun or difflib.get_close_matches(_plain(name), by_plain, n=1, cutoff=0.6)
    return by_plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _place(where: Where) -> Where:
    return where[:-1] if where[-1:] == ("[key]",) else where


def _worded(details: ErrorDetails, data: Any, root: "_Root") -> str:
    where = details["loc"]
    if details["type"] == "extra_forbidden":
        return _unknown(where, root)
    if details["type"] == "missing":
        return f"is missing, and must be {_allowed(root.node(where))}."
    if where[-1:] == ("[key]",):
        names = _key_schema(root.node(where[:-2]))
        return f"the key must be {_allowed(names)}; found {describe_value(where[-2])}."
    node = root.node(where)
    allowed = f"must be {_allowed(node)}" if node else details["msg"]
    return _with_found(allowed, data, where, root)


def _key_schema(node: Schema) -> Schema:
    patterns = node.get("patternProperties")
    if patterns:
        return {"type": "string", "pattern": next(iter(patterns))}
    return {"type": "string", **node.get("propertyNames", {})}


def _unknown(where: Where, root: "_Root") -> str:
    name = str(where[-1])
    known = list(root.node(where[:-1]).get("properties", {}))
    if near := nearest(name, known):
        return f"unknown field; did you mean {near}?"
    if elsewhere := root.elsewhere(name):
        return f"unknown field here, but there is {' and '.join(elsewhere[:2])}."
    if not known:
        return f"unknown field: {format_path(where[:-1])} takes none, write {{}}."
    return f"unknown field; the fields are {', '.join(known)}."


def _with_found(text: str, data: Any, where: Where, root: "_Root") -> str:
    """Return a sentence that says what was found if its text does not, with a hint."""
    place = _as_written(where, data)
    try:
        value = functools.reduce(getitem, place, data)
    except (KeyError, IndexError, TypeError):
        return as_sentence(text)
    if text.startswith("set ") and isinstance(value, dict):
        nulls = [key for key, each in value.items() if each is None]
        return as_sentence(f"{text}; null means absent: write {nulls[0]}: {{}}" if nulls else text)
    if "; found " in text or (isinstance(value, dict | list) and not text.startswith("must be")):
        return as_sentence(text)
    written = root.written(value, place)
    return as_sentence(f"{text}; found {written}{_hint(value, written, root.node(where))}")


def _as_written(where: Where, data: Any) -> Where:
    """Return a place as it is in the data, where a mapping may stand for a list of one."""
    found: list[int | str] = []
    for step in where:
        if step == 0 and isinstance(data, dict):
            continue
        found.append(step)
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            data = None
    return tuple(found)


def _hint(value: Any, written: str, node: Schema) -> str:
    """Return what to do about a value of the wrong type or spelling, empty if nothing helps."""
    if isinstance(value, bool):
        words = "true, yes, on and y" if value else "false, no, off and n"
        is_text = (node.get("type") == "string" or "pattern" in node) and "enum" not in node
        return f", as YAML reads {words}: write a text in quotes" if is_text else ""
    if not isinstance(value, str | int | float):
        return ""
    text = value if isinstance(value, str) else written
    near = nearest(text, [*map(str, node.get("enum", ()))])
    if near is not None and near != text:
        return f"; did you mean {near}?"
    if not isinstance(value, str):
        return f': write it in quotes, "{text}"' if _fits(text, node) else ""
    right = {"integer": value.isdecimal(), "boolean": value in {"true", "false"}}
    if right.get(node.get("type", "")):
        return ", which is a text: write it without quotes"
    return ""


def _fits(text: str, node: Schema) -> bool:
    """Return whether a text is what a field takes."""
    if node.get("type") != "string" and "pattern" not in node:
        return False
    if "enum" in node or "const" in node:
        return text in (node.get("enum") or [node["const"]])
    return re.search(node.get("pattern", ""), text) is not None


def describe_value(value: Any) -> str:
    """Return what was found, shortened, as JSON or in words; an address without its user."""
    if isinstance(value, str):
        value = _USER.sub(r"\1***@", value)
    match value:
        case dict():
            return "a mapping" if value else "an empty mapping"
        case list():
            return f"a list of {len(value)}"
        case str() if len(value) > _SHORT:
            start = json.dumps(value[:_SHORT], ensure_ascii=False)[:-1]
            return f'{start}..." ({len(value)} characters)'
        case _:
            return json.dumps(value, ensure_ascii=False)


def _allowed(node: Schema) -> str:
    """Return what a field takes, behind "must be"."""
    if node.get("pattern") in MEANINGS:
        return MEANINGS[node["pattern"]]
    if "enum" in node or "const" in node:
        values = [str(value) for value in node.get("enum") or [node["const"]]]
        return values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    if node.get("title") == "ObjectMeta":
        return "a mapping with a name: {name: my-run}"
    if node.get("properties"):
        return f"a mapping with the fields {', '.join(node['properties'])}"
    if node.get("type") == "object" and not _is_map(node):
        return "a mapping without fields: {}"
    word, *bounds = _WORDS[node["type"]]
    return word + _range(node, *bounds)


_WORDS = {
    "integer": ("a whole number", "minimum", "maximum", ""),
    "number": ("a number", "minimum", "maximum", ""),
    "boolean": ("true or false", "", "", ""),
    "string": ("a text", "minLength", "maxLength", " characters"),
    "array": ("a list", "minItems", "maxItems", " items"),
    "object": ("a mapping", "minProperties", "maxProperties", " keys"),
}


def _is_map(node: Schema) -> bool:
    return bool(node.get("additionalProperties") or node.get("patternProperties"))


def _range(node: Schema, low: str, high: str, unit: str) -> str:
    if "exclusiveMinimum" in node:
        return f" above {node['exclusiveMinimum']:g}"
    if low in node and high in node:
        between = "from" if not unit else "of"
        return f" {between} {node[low]} to {node[high]}{unit}"
    if high in node:
        return f" of at most {node[high]}{unit}"
    return f" of at least {node[low]}{unit}" if low in node else ""


class _Root:
    """The schema of a document, from which places are looked up."""

    def __init__(self, model: type[Document], decimals: Mapping[Where, str]) -> None:
        self._schema = _schema(model)
        self._decimals = decimals

    def written(self, value: Any, where: Where) -> str:
        """Return a value as it is written, or described."""
        return self._decimals.get(where) or describe_value(value)

    def node(self, where: Where) -> Schema:
        """Return the schema of a place, empty if there is none."""
        node = self._schema
        for step in where:
            node = _below(self._resolved(node), step)
        return self._resolved(node)

    def elsewhere(self, name: str) -> list[str]:
        """Return the paths of the spec's fields that have this very name."""
        spec = self._schema["properties"].get("spec", {})
        return [path for path in self._paths(spec, "spec") if _last(path) == name]

    def _resolved(self, node: Schema) -> Schema:
        while "$ref" in node:
            name = node["$ref"].removeprefix("#/$defs/")
            siblings = {key: value for key, value in node.items() if key != "$ref"}
            node = {**self._schema["$defs"][name], **siblings}
        return node

    def _paths(self, node: Schema, path: str) -> Iterator[str]:
        node = self._resolved(node)
        if "items" in node:
            yield from self._paths(node["items"], f"{path}[]")
        for name, each in node.get("properties", {}).items():
            yield f"{path}.{name}"
            yield from self._paths(each, f"{path}.{name}")


@functools.cache
def _schema(model: type[Document]) -> Schema:
    return json_schema(model)


def _below(node: Schema, step: str | int) -> Schema:
    if isinstance(step, int):
        found = node.get("items", {})
    elif "properties" in node:
        found = node["properties"].get(step, {})
    else:
        values = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
        found = values[0]
    return found if isinstance(found, dict) else {}


def _last(path: str) -> str:
    return path.rpartition(".")[2]
