"""The committed JSON Schema judges result documents as the model does."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema
import pytest
from docgen.files import CHECKOUT

from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument
from support.run_table import VALID
from support.runs import a_run

SCHEMA: dict[str, Any] = json.loads(
    (CHECKOUT / "crds" / "result.schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

_TIMES: dict[str, Any] = {
    "count": 1,
    "minNanoseconds": 1,
    "meanNanoseconds": 1,
    "maxNanoseconds": 1,
    "percentiles": [{"percentile": 99.9, "nanoseconds": 1}],
    "histogram": "SElTVA==",
}
_STEP: dict[str, Any] = {
    "label": "batch 8",
    "batchSize": 8,
    "startedAt": "2026-01-31T12:00:00Z",
    "warmUpNanoseconds": 0,
    "durationNanoseconds": 10,
    "counts": {"queries": 1, "samples": 8, "succeeded": 1, "failed": 0},
    "achievedQps": 1.5,
    "achievedSamplesPerSecond": 12,
    "latency": _TIMES,
    "windows": [
        {"startMilliseconds": 0, "durationMilliseconds": 1000, "succeeded": 1, "failed": 0}
    ],
    "usage": [{"atMilliseconds": 0, "clientCpuCores": 0.5, "clientMemoryBytes": 1}],
    "energy": {"attribution": "unavailable", "reason": "no source"},
}
_FINDING = {"rule": "MinDuration", "message": "Too short.", "figure": "1 s", "limit": "60 s"}


def _document(run: Any) -> dict[str, Any]:
    return {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkResult",
        "schemaVersion": "1.1",
        "runId": "1",
        "inferometerVersion": "0",
        "startedAt": "2026-01-31T12:00:00Z",
        "finishedAt": "2026-01-31T12:00:00Z",
        "outcome": {"state": "Complete", "reason": "Measured"},
        "run": run,
        "scenarios": [
            {
                "name": "a",
                "kind": "batch",
                "seed": 1,
                "steps": [_STEP],
                "verdict": {"state": "INVALID", "reasons": [_FINDING]},
            }
        ],
    }


def _written(run: Any) -> dict[str, Any]:
    """Return a result as it is written: defaults in, nothing null."""
    text = ResultDocument.model_validate(_document(run)).model_dump_json(exclude_none=True)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_schema_is_a_json_schema() -> None:
    """It is a schema of draft 2020-12 with an id that has its version."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "https://inferometer.dev/schemas/result-v1.json"


@pytest.mark.parametrize("row", VALID, ids=lambda row: row.name)
def test_a_written_result_fits_the_schema(row: Any) -> None:
    """A document of any valid run, as it is written, has no error."""
    assert list(VALIDATOR.iter_errors(_written(row.run))) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schemaVersion",), 1),
        (("runId",), None),
        (("outcome", "state"), "complete"),
        (("surplus",), 1),
        (("scenarios", 0, "steps", 0, "counts", "queries"), -1),
        (("scenarios", 0, "steps", 0, "latency"), None),
        (("run", "spec", "scenarios", 0, "name"), "Not A Label"),
        (("run", "spec", "load", "seed"), 1.5),
    ],
)
def test_a_value_outside_the_result_schema_is_refused(
    place: tuple[str | int, ...], value: object
) -> None:
    """A wrong version, a null, an unknown field or a value out of bounds does not fit."""
    document: Any = _written(a_run())
    here = document
    for step in place[:-1]:
        here = here[step]
    here[place[-1]] = value
    assert list(VALIDATOR.iter_errors(document)) != []


def test_no_field_of_it_is_of_kubernetes_alone() -> None:
    """The schema is plain JSON Schema, without an API server's words."""
    assert "x-kubernetes" not in json.dumps(SCHEMA)


RELEASED = {
    file.stem.removeprefix("result-"): json.loads(file.read_text(encoding="utf-8"))
    for file in (CHECKOUT / "tests" / "data" / "schemas").glob("result-*.json")
}
_PROSE = {"title", "description", "$id", "$schema"}


def _changes(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield each place where a schema is not the old one; descriptions aside."""
    if isinstance(old, dict) and isinstance(new, dict):
        is_names = where.endswith((".properties", ".$defs"))
        for name in {**old, **new}:
            if name in _PROSE and not is_names:
                continue
            if name not in old:
                yield f"+{where}.{name}"
            elif name not in new:
                yield f"-{where}.{name}"
            else:
                yield from _changes(old[name], new[name], f"{where}.{name}")
    elif where.endswith((".enum", ".required")):
        yield from (f"-{where}={each}" for each in old if each not in new)
        yield from (f"+{where}={each}" for each in new if each not in old)
    elif old != new:
        yield f"-{where}"


def _is_addition(change: str) -> bool:
    """Return whether a newer minor version may have a change: a new field, type or word."""
    where = change.partition("=")[0]
    parts = where.rsplit(".", 2)
    is_named = parts[-2] in {"properties", "$defs"} or where.endswith((".enum", ".required"))
    return change.startswith("+") and is_named


def _problems(released: dict[str, Any], version: str, schema: Any) -> list[str]:
    """Return each change against the released schemas that the version does not allow."""
    found = []
    for name, old in released.items():
        if name.partition(".")[0] == version.partition(".")[0]:
            changes = _changes(old, schema)
            found += [each for each in changes if name == version or not _is_addition(each)]
    return found


def test_the_schema_changes_only_with_its_version() -> None:
    """It is the released one of its version, and only adds to those of older minor versions."""
    assert SCHEMA_VERSION in RELEASED
    problems = _problems(RELEASED, SCHEMA_VERSION, SCHEMA)
    assert not problems, f"raise SCHEMA_VERSION and keep its schema in tests/data: {problems}"


def test_a_changed_schema_is_noticed() -> None:
    """A new field or word needs a newer minor version; a removed or retyped one, a major one."""
    added, removed = deepcopy(SCHEMA), deepcopy(SCHEMA)
    added["$defs"]["Outcome"]["properties"]["new"] = {"type": "string"}
    del removed["$defs"]["Outcome"]["properties"]["reason"]
    released = {"1.1": SCHEMA}
    assert _problems(released, "1.1", added) == ["+.$defs.Outcome.properties.new"]
    assert _problems(released, "1.2", added) == []
    assert _problems(released, "1.2", removed) == ["-.$defs.Outcome.properties.reason"]
    assert _problems(released, "2.0", removed) == []
