"""Differences between two results other than their figures: the spec and the environment."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    first, second = _facts(before), _facts(after)
    found = []
    for part, heading in _HEADINGS.items():
        names = [name for name in (*first, *second) if _is_within(name, part)]
        for name in dict.fromkeys(names):
            one, other = first.get(name, ABSENT), second.get(name, ABSENT)
            if one != other:
                is_note = part == "notes"
                short = "note" if is_note else name.removeprefix("run.").removeprefix(f"{part}.")
                found.append(Difference(heading, short, one, other))
    return found


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
