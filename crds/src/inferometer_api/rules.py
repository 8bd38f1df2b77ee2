"""Rules between fields, which the models and the API server both check."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Where = tuple[str | int, ...]
"""Path from a document to one of its values: wire names and indices."""


def format_path(where: Where) -> str:
    """Return a path as users write it: `spec.scenarios[1].server.targetQps`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not re.fullmatch(r"[A-Za-z0-9_-]+", step):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule between the fields of an object, for the API server and for the models.

    `cel` is the rule for the API server: `self` is the object, `oldSelf` its old version in an
    update. `holds` is the same rule for the model, None if only an update can break it. `field` is
    the dotted path, in wire names, of the member that the message is about, None for the whole
    object. `found` returns the value to show if it is not that of the member. `breaches` yields
    each place below the object, with the value to show, if a list can have several.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None
    field: str | None = None
    found: Callable[[Any], str] | None = None
    breaches: Callable[[Any], Iterable[tuple[Where, str]]] | None = None

    def faults(self, document: object) -> tuple["Fault", ...]:
        """Return a fault for each place where the document breaks the rule."""
        if self.breaches is not None:
            return tuple(
                Fault(where, f"{self.message}; found {found}")
                for where, found in self.breaches(document)
            )
        where = tuple(self.field.split(".")) if self.field else ()
        found = "" if self.found is None else f"; found {self.found(document)}"
        return (Fault(where, self.message + found),)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a value: its path below the value, and a message."""

    where: Where
    message: str


class FaultsError(ValueError):
    """A value breaks rules between fields; `faults` lists them."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


def same_order(field: str, key: str | None = None, *, is_optional: bool = False) -> Rule:
    """Return the rule that an update keeps the order of a list, or of the `key`s of its items.

    The API server ignores the order of lists of type `set` and `map`; `map()` gives a plain list.
    """
    order = f"{field}.map(item, {f'item.{key}' if key else 'item'})"
    same = f"self.{order} == oldSelf.{order}"
    if is_optional:
        is_set, was_set = f"has(self.{field})", f"has(oldSelf.{field})"
        same = f"{is_set} == {was_set} && (!{is_set} || {same})"
    return Rule(
        cel=same,
        message=f"{field} and their order are immutable: create a new BenchmarkRun",
        holds=None,
        field=field,
    )


def exactly_one(members: tuple[str, ...]) -> Rule:
    """Return the rule that exactly one of the members (wire names) is set."""
    listed = ", ".join(f"has(self.{name})" for name in members)
    return Rule(
        cel=f"[{listed}].filter(set, set).size() == 1",
        message=f"set exactly one of {', '.join(members)}",
        holds=lambda document: sum(_is_set(document, name) for name in members) == 1,
        found=lambda document: (
            " and ".join(name for name in members if _is_set(document, name)) or "none"
        ),
    )


def not_both(one: str, other: str) -> Rule:
    """Return the rule that at most one of two members (wire names) is set."""
    return Rule(
        cel=f"!has(self.{one}) || !has(self.{other})",
        message=f"set {one} or {other}, not both",
        holds=lambda document: not (_is_set(document, one) and _is_set(document, other)),
    )


def _is_set(document: object, wire_name: str) -> bool:
    return getattr(document, to_snake(wire_name)) is not None


@dataclass(frozen=True, slots=True)
class Unique:
    """Annotation of a list without duplicates: of its items, or of their member `key`.

    For the API server it is a list of type `set`, or of type `map` with that key.
    """

    key: str | None = None
    ignores_case: bool = False
    """Whether texts that differ in case only are duplicates; the API server lets them pass."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check the list after its items."""
        return core_schema.no_info_after_validator_function(self._judge, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the list type for the API server."""
        found = handler(schema)
        found["x-kubernetes-list-type"] = "map" if self.key else "set"
        if self.key:
            found["x-kubernetes-list-map-keys"] = [self.key]
        return found

    def _judge(self, items: list[Any]) -> list[Any]:
        values = [getattr(item, self.key) if self.key else item for item in items]
        if self.ignores_case:
            values = [value.lower() for value in values]
        below = (self.key,) if self.key else ()
        twice = tuple(
            Fault(
                (index, *below),
                f"stands at index {values.index(value)} already: each {self.key or 'value'} may "
                "stand once",
            )
            for index, value in enumerate(values)
            if value in values[:index]
        )
        if twice:
            raise FaultsError(twice)
        return items
