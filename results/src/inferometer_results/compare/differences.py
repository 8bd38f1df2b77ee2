"""Differences between two variants other than their figures: the spec and the environment."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from inferometer_api.document import Document
from inferometer_api.results.result import ResultDocument
from inferometer_api.runtimes.table import RUNTIMES

ABSENT = "none"
"""The value of a field that one of both lacks."""
_HEADINGS = {
    "model": "Model",
    "run.spec": "Spec",
    "node": "Machine",
    "server": "Server",
    "packages": "Software",
    "images": "Images",
    "notes": "Notes",
    "environment": "Environment",
}
"""The parts of a document that are compared, in the order in which they are listed."""
_OF_EVERY_RUN = frozenset(
    {
        "server.url",
        "server.replicas",
        *(
            f"server.settings.{name}"
            for runtime in RUNTIMES.values()
            for name in (*runtime.restart_identity, *runtime.varying_settings)
        ),
        # Also elsewhere in the document.
        "server.settings.compute_nodes_fell_back",
        "server.settings.model_sha256",
        "server.settings.nodes_by_provider",
        "run.spec.retention",
        "run.spec.suspend",
        "run.spec.cancel",
        "run.status",
    }
)
"""Fields that differ in every run and explain nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs."""

    heading: str
    name: str
    before: str
    after: str


def differences(before: ResultDocument, after: ResultDocument) -> list[Difference]:
    """Return every difference that could explain different figures, the most important first."""
    return differences_over_rounds([before], [after])


def differences_over_rounds(
    before: Sequence[ResultDocument], after: Sequence[ResultDocument]
) -> list[Difference]:
    """Return the same of interleaved runs, at least one of each variant.

    A value that changed on the way is listed too, even if it did in both: each value has its
    rounds.
    """
    first, second = _values(before), _values(after)
    found = []
    for part, heading in _HEADINGS.items():
        names = [name for name in (*first, *second) if _is_within(name, part)]
        for name in dict.fromkeys(names):
            one = first.get(name, [ABSENT] * len(before))
            other = second.get(name, [ABSENT] * len(after))
            if len({*one, *other}) > 1:
                found.append(_difference(part, heading, name, (one, other)))
    return found


def _values(rounds: Sequence[ResultDocument]) -> dict[str, list[str]]:
    """Return the value of each fact in each round."""
    facts = [_facts(document) for document in rounds]
    names = dict.fromkeys(name for each in facts for name in each)
    return {name: [each.get(name, ABSENT) for each in facts] for name in names}


def _difference(
    part: str, heading: str, name: str, values: tuple[Sequence[str], Sequence[str]]
) -> Difference:
    if part != "notes":
        short = name.removeprefix("run.").removeprefix(f"{part}.")
        return Difference(heading, short, *map(_over_rounds, values))
    if all(len(set(each)) == 1 for each in values):
        return Difference(heading, "note", values[0][0], values[1][0])
    text = next(each for each in (*values[0], *values[1]) if each != ABSENT)
    present = ([at for at, each in enumerate(of_one, 1) if each != ABSENT] for of_one in values)
    return Difference(heading, text.removesuffix("."), *map(_round_names, present))


def _over_rounds(values: Sequence[str]) -> str:
    """Return the value, or each of several values with its rounds."""
    found = dict.fromkeys(values)
    if len(found) == 1:
        return values[0]
    rounds = {value: [at for at, each in enumerate(values, 1) if each == value] for value in found}
    return ", ".join(f"{value} ({_round_names(which)})" for value, which in rounds.items())


def _round_names(rounds: Sequence[int]) -> str:
    """Return ascending rounds in short: "rounds 1-3, 5"."""
    if not rounds:
        return ABSENT
    # Within a row of neighbours the distance to the place in the list stays the same.
    rows = [
        [number for _, number in row]
        for _, row in groupby(enumerate(rounds), key=lambda placed: placed[1] - placed[0])
    ]
    names = (str(row[0]) if len(row) == 1 else f"{row[0]}-{row[-1]}" for row in rows)
    return f"round{'s' if len(rounds) > 1 else ''} {', '.join(names)}"


def _facts(document: ResultDocument) -> dict[str, str]:
    environment = document.environment
    dumped = _dump(environment) if environment else {}
    packages = dumped.setdefault("packages", {})
    packages["inferometer"] = document.inferometer_version
    place = dumped.pop("place", None)
    if place is not None:
        dumped["node"]["place"] = place
    dumped["node"] = {**dumped.get("node", {}), **_nodes(dumped.get("server", {}))}
    dumped["environment"] = _unknown(environment) if environment else {}
    dumped["run"] = _dump(document.run)
    return dict(_leaves(dumped, ""))


def _dump(value: Any) -> Any:
    """Return a document as its JSON, with the fields that only a newer version knows."""
    if isinstance(value, Document):
        known = {
            field.alias or name: _dump(getattr(value, name))
            for name, field in type(value).model_fields.items()
        }
        found = {name: each for name, each in known.items() if each is not None}
        return {**found, **_unknown(value)}
    if isinstance(value, Mapping):
        return {name: _dump(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_dump(each) for each in value]
    return value


def _unknown(document: Document) -> dict[str, str]:
    """Return the fields that only a newer version knows, each as JSON in one text."""
    extra = document.model_extra or {}
    return {name: json.dumps(each, sort_keys=True) for name, each in extra.items()}


def _nodes(server: Mapping[str, Any]) -> dict[str, str]:
    """Return the nodes on which the servers ran."""
    nodes = sorted({each["node"] for each in server.get("replicas", ()) if each.get("node")})
    return {"servers' nodes": ", ".join(nodes)} if nodes else {}


def _leaves(dumped: Any, name: str) -> Iterator[tuple[str, str]]:
    if name in _OF_EVERY_RUN:
        return
    if isinstance(dumped, Mapping):
        for key, value in dumped.items():
            yield from _leaves(value, f"{name}.{key}" if name else key)
    elif name == "notes":
        # Each is a sentence: only those that differ are worth reading.
        yield from ((f"notes[{text}]", str(text)) for text in dumped)
    elif isinstance(dumped, list) and any(isinstance(each, Mapping) for each in dumped):
        for index, value in enumerate(dumped):
            # Scenarios and tensors have names, which are clearer than indices.
            label = value.get("name", index) if isinstance(value, Mapping) else index
            yield from _leaves(value, f"{name}[{label}]")
    else:
        yield name, _text(dumped)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or ABSENT


def _is_within(name: str, part: str) -> bool:
    return name == part or name.startswith((f"{part}.", f"{part}["))
