"""Which rules can no single field state, and how is a broken one told?"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.alias_generators import to_snake
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

Where = tuple[str | int, ...]
"""Wire names and indices that lead from a document to one of its values."""


def spelt(where: Where) -> str:
    """Return a place as a person writes it: `spec.scenarios[1].server.targetQps`."""
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
    """A rule that no single field can state, told to both judges.

    `cel` is what the API server evaluates with `self` (and `oldSelf` on an update) as the object;
    `holds` is the same rule over the model, None where only an update can break it. `field` is the
    dotted path, in wire names, of the member that the message speaks of, None where it speaks of
    the object as a whole. `found` tells what stands there instead, where the member's own value
    does not; `breaches` yields it with each place below the object, where a list has several.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None
    field: str | None = None
    found: Callable[[Any], str] | None = None
    breaches: Callable[[Any], Iterable[tuple[Where, str]]] | None = None

    def faults(self, document: object) -> tuple["Fault", ...]:
        """Return how the rule is told where the document breaks it."""
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
    """One thing that is wrong below the value that was judged, in a sentence."""

    where: Where
    message: str


class FaultsError(ValueError):
    """A value breaks rules of ours; `faults` says which, each with its place below the value."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


def same_order(field: str, key: str | None = None) -> Rule:
    """Return the rule that a list, of items or of their `key`s, keeps its order in an update.

    The API server compares lists of type `set` and `map` without it; `map()` gives a plain list.
    """
    order = f"{field}.map(item, {f'item.{key}' if key else 'item'})"
    return Rule(
        cel=f"self.{order} == oldSelf.{order}",
        message=f"{field} is immutable, its order too: create a new BenchmarkRun",
        holds=None,
        field=field,
    )


def exactly_one(members: tuple[str, ...]) -> Rule:
    """Return the rule that just one of the members (wire names) is set."""
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
    """Return the rule that not both members (wire names) are set."""
    return Rule(
        cel=f"!has(self.{one}) || !has(self.{other})",
        message=f"set {one} or {other}, not both",
        holds=lambda document: not (_is_set(document, one) and _is_set(document, other)),
    )


def _is_set(document: object, wire_name: str) -> bool:
    return getattr(document, to_snake(wire_name)) is not None


@dataclass(frozen=True, slots=True)
class Unique:
    """Annotates a list whose items differ: in their value, or in the member named by `key`.

    To the API server it is a list of type `set`, or of type `map` with that key.
    """

    key: str | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Judge the list once its items are judged."""
        return core_schema.no_info_after_validator_function(self._judge, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Tell Kubernetes what makes an item itself."""
        found = handler(schema)
        found["x-kubernetes-list-type"] = "map" if self.key else "set"
        if self.key:
            found["x-kubernetes-list-map-keys"] = [self.key]
        return found

    def _judge(self, items: list[Any]) -> list[Any]:
        values = [getattr(item, self.key) if self.key else item for item in items]
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
