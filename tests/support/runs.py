"""Writes a BenchmarkRun, and says what a judge must think of it."""

import copy
import json
from dataclasses import dataclass
from typing import Any

Run = dict[str, Any]
"""A BenchmarkRun as JSON."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run and what every judge must say of it."""

    name: str
    run: Run
    path: str | None = None
    """The field that a judge names; None: the run is valid."""
    before: Run | None = None
    """The run that an update changes; None: the run is created."""

    @property
    def valid(self) -> bool:
        """Whether the run is taken."""
        return self.path is None

    @property
    def text(self) -> str:
        """The run as a file holds it."""
        return json.dumps(self.run)

    @property
    def sent(self) -> str:
        """The run as kubectl sends it: Go writes the number 8.0 as 8.

        A client that sends 8.0 itself is refused where a CEL rule reads the field ("expected int,
        got float64"), and else taken.
        """
        return json.dumps(_as_go_writes(self.run))


def a_run(**spec: Any) -> Run:
    """Return the smallest valid run, with members of its spec replaced."""
    return {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "a-run"},
        "spec": {
            "model": {"uri": "zoo://classification/resnet50"},
            "scenarios": [{"name": "latency", "singleStream": {}}],
            **spec,
        },
    }


def an_external_run(**spec: Any) -> Run:
    """Return a run against a server that serves already."""
    return a_run(
        **{
            "model": {"name": "resnet"},
            "server": {"runtime": "External", "external": {"url": "http://127.0.0.1:8000"}},
            **spec,
        }
    )


def a_scenario(**member: Any) -> Run:
    """Return a run with one scenario of the kind given."""
    return a_run(scenarios=[{"name": "one", **member}])


def with_value(run: Run, place: tuple[str | int, ...], value: Any) -> Run:
    """Return a copy of the run with one value set; mappings on the way are made."""
    changed = copy.deepcopy(run)
    here: Any = changed
    for step in place[:-1]:
        here = here.setdefault(step, {}) if isinstance(here, dict) else here[step]
    here[place[-1]] = value
    return changed


def _as_go_writes(value: Any) -> Any:
    match value:
        case dict():
            return {key: _as_go_writes(each) for key, each in value.items()}
        case list():
            return [_as_go_writes(each) for each in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
