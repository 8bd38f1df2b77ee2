"""docs/reference/result.md: the fields of the result document."""

from collections.abc import Iterator
from typing import Any

from docgen.field_tables import HEADER, Schema, members, table
from inferometer_api.results.result import SCHEMA_VERSION

_RUN = "BenchmarkRun"
"""Documented on a page of its own, with all its parts."""
_INTRODUCTION = f"""\
For readers of `result.json`. The document holds everything that a run measured, and under which
conditions. [The schema](../../crds/result.schema.json) has the same fields in JSON Schema.

| looking for | field |
|---|---|
| the verdict of a scenario, and why | `scenarios[].verdict` |
| throughput | `scenarios[].steps[].achievedQps`, `achievedSamplesPerSecond` |
| latency percentiles with their bounds | `scenarios[].steps[].latency.percentiles` |
| the peak rate of `findPeak`, the knee of `concurrency` | `scenarios[].peak`, `scenarios[].knee` |
| energy per inference | `scenarios[].steps[].energy` |
| the run as it was measured, with every default | `run` |
| the machine, the server and the model | `environment` |
| how the run ended | `outcome` |

Times are in nanoseconds, rates in queries per second; the name of a field ends with its unit.
Points in time are in RFC 3339: `2026-01-31T12:00:00.000Z`. A figure that is not known is absent,
never `null`.

`schemaVersion` is `MAJOR.MINOR`, now `{SCHEMA_VERSION}`. A newer minor version adds fields,
kinds of scenarios and words (values of a field that takes one of a list). Programs ignore the
fields that they do not know, show the words as they are, call the kind of such a scenario
`unknown`, and print a notice. `inferometer compare` lists differences in fields that it does not
know. A newer major version is rejected."""


def result_page(schema: Schema) -> str:
    """Return the page, made from the JSON Schema of the result document."""
    definitions = schema["$defs"]
    run_types = _reachable(definitions, _RUN)
    lines = [
        f"<!-- {HEADER} -->",
        "# The result document",
        "",
        _INTRODUCTION,
        "",
        "## ResultDocument",
        *table(members(schema, "")),
    ]
    for name, each in definitions.items():
        if name not in run_types and "properties" in each:
            heading = ["", f"## {name}", "", each.get("description", "")]
            lines += [*heading, *table(members(each, ""))]
    return "\n".join(lines) + "\n"


def _reachable(definitions: Schema, name: str) -> set[str]:
    """Return the names of a definition and of all definitions that it refers to."""
    found: set[str] = set()
    left = [name]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += _references(definitions[name])
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].removeprefix("#/$defs/")
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
