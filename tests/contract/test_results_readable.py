"""Results of every released format stay readable: tests/data/results holds one of each.

A file is named after its schema version and the place of the run. When the format changes, add a
result of the program as it is now (`inferometer run --output DIR`, compact JSON), and keep the
others.
"""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from docgen.files import CHECKOUT
from docgen.result_schema import result_schema
from rich.console import Console

from inferometer_api.results.reading import UnreadableDocumentError, read_result
from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument
from inferometer_api.spec.scenario import SCENARIO_KINDS
from inferometer_cli.tables.comparison import print_comparison
from inferometer_cli.tables.result import print_table
from inferometer_results.compare.comparison import compare
from inferometer_results.compare.differences import differences
from inferometer_results.report import render_report

FILES = sorted((CHECKOUT / "tests/data/results").glob("*.json"))
_SCHEMA = result_schema()


def test_the_present_format_has_a_result() -> None:
    """There is a result with the current schema version."""
    versions = {json.loads(file.read_text())["schemaVersion"] for file in FILES}
    assert SCHEMA_VERSION in versions


def test_the_document_of_today_is_among_them() -> None:
    """One result is written again as it was read: no field with a default has come since."""
    same = [file.name for file in FILES if _rewritten(file) == json.loads(file.read_text())]
    assert same, f"add a result of the program as it is now: {__doc__}"


@pytest.mark.parametrize("kind", SCENARIO_KINDS)
def test_every_kind_of_scenario_has_a_result(kind: str) -> None:
    """What only one kind has, such as the phases of a start, must stay readable too."""
    documents = [read_result(file.read_bytes(), source=file.name).document for file in FILES]
    assert any(each.kind == kind for document in documents for each in document.scenarios)


def _rewritten(file: Path) -> Any:
    document = read_result(file.read_bytes(), source=file.name).document
    return json.loads(document.model_dump_json(exclude_none=True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_stored_result_is_read_reported_and_compared(file: Path) -> None:
    """A result of any released version is read without a notice, rendered and compared."""
    read = read_result(file.read_bytes(), source=file.name)
    assert read.notice == ""
    assert read.document.scenarios
    page = render_report(read.document)
    assert all(scenario.name in page for scenario in read.document.scenarios)
    assert compare(read.document, read.document).pairs


def _resolved(schema: Any) -> Any:
    while "$ref" in schema:
        schema = _SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def _with_unknown_fields(value: Any, schema: Any) -> Any:
    """Return a value with one more field at every level whose fields the schema names."""
    schema = _resolved(schema)
    if isinstance(value, list):
        return [_with_unknown_fields(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    if "properties" not in schema:  # keys that the user or the machine chooses
        of = schema.get("additionalProperties")
        of = of if isinstance(of, dict) else {}
        return {name: _with_unknown_fields(each, of) for name, each in value.items()}
    fields = schema["properties"]
    members = {name: _with_unknown_fields(each, fields[name]) for name, each in value.items()}
    return {**members, "fieldOfTheFuture": {"a": [1]}}


def _without_spec(document: ResultDocument) -> dict[str, Any]:
    dumped = document.model_dump(mode="json")
    del dumped["schemaVersion"], dumped["run"]["spec"]["scenarios"]
    return dumped


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_unknown_fields_are_ignored_at_every_level(file: Path) -> None:
    """A newer minor version reads as the same document, with a notice that names both versions."""
    content = json.loads(file.read_text())
    major = SCHEMA_VERSION.partition(".")[0]
    newer = _with_unknown_fields(content, _SCHEMA) | {"schemaVersion": f"{major}.999"}
    for scenario in newer["run"]["spec"]["scenarios"]:
        (member,) = (name for name in scenario if name in SCENARIO_KINDS)
        scenario["telepathy"] = scenario.pop(member)
    read = read_result(json.dumps(newer), source="newer.json")
    expected = read_result(json.dumps(content), source=file.name).document
    assert _without_spec(read.document) == _without_spec(expected)
    assert {each.kind for each in read.document.run.spec.scenarios} == {"unknown"}
    assert all(scenario.name in render_report(read.document) for scenario in expected.scenarios)
    assert compare(read.document, expected).pairs
    found = {difference.name for difference in differences(read.document, expected)}
    name = expected.scenarios[0].name
    assert {"spec.fieldOfTheFuture", f"spec.scenarios[{name}].telepathy"} <= found
    assert f"newer.json has schema version {major}.999" in read.notice
    assert f"reads version {SCHEMA_VERSION}" in read.notice


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schemaVersion": "2.0"}, r"has schema version 2\.0, and this program reads version"),
        ({"schemaVersion": "2.0", "outcome": 1}, r"has schema version 2\.0, and this program"),
        ({"schemaVersion": 1}, "has schema version 1, and this program reads version"),
        ({"outcome": {}}, r"is damaged at outcome\.state\. It was written by Inferometer"),
        ({"kind": "BenchmarkRun"}, "is not a result"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(changes: Any, message: str) -> None:
    """A newer major version and a damaged document each give a sentence."""
    content = json.loads(FILES[-1].read_text()) | changes
    with pytest.raises(UnreadableDocumentError, match=message):
        read_result(json.dumps(content), source="result.json")


def _words(value: Any, schema: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value of a document that the schema takes from a list of words."""
    schema = _resolved(schema)
    if "enum" in schema:
        yield where
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _words(each, schema["items"], (*where, index))
    elif isinstance(value, dict) and "properties" in schema:
        for name, each in value.items():
            yield from _words(each, schema["properties"][name], (*where, name))


def _fields_with_words() -> dict[str, tuple[Path, tuple[Any, ...]]]:
    """Return each field with a list of words, by name: the smallest result that has it, and where.

    The smallest, because each is rendered.
    """
    return {
        ".".join(str(part) for part in where if isinstance(part, str)): (file, where)
        for file in sorted(FILES, key=lambda file: -file.stat().st_size)
        for where in _words(json.loads(file.read_text()), _SCHEMA)
    }


@pytest.mark.parametrize(
    ("file", "where"),
    [pytest.param(*place, id=name) for name, place in _fields_with_words().items()],
)
def test_an_unknown_word_is_read_and_shown(file: Path, where: tuple[Any, ...]) -> None:
    """A word that only a newer minor version knows is kept; report and compare show the rest."""
    content: Any = json.loads(file.read_text())
    here = content
    for step in where[:-1]:
        here = here[step]
    here[where[-1]] = "WordOfTheFuture"
    content["schemaVersion"] = f"{SCHEMA_VERSION.partition('.')[0]}.999"
    read = read_result(json.dumps(content), source="newer.json")
    written: Any = json.loads(read.document.model_dump_json(exclude_none=True))
    for step in where:
        written = written[step]
    assert written == "WordOfTheFuture"
    expected = read_result(file.read_bytes(), source=file.name).document
    assert all(scenario.name in render_report(read.document) for scenario in expected.scenarios)
    assert compare(read.document, expected).pairs
    found = differences(read.document, expected)
    if (where[:2] == ("run", "spec") and where[2] != "retention") or where[0] == "environment":
        assert any("WordOfTheFuture" in each.before.split(", ") for each in found)
    console = Console(file=StringIO(), width=200)
    print_table(read.document, console)
    print_comparison(
        ("A", read.document), ("B", expected), compare(read.document, expected), console
    )


def test_a_value_that_a_newer_version_alone_can_read_is_refused() -> None:
    """The message names the version, the place and the program to use; nothing is damaged."""
    content = json.loads(FILES[-1].read_text()) | {"schemaVersion": "1.999", "startedAt": {"a": 1}}
    message = (
        r"has schema version 1\.999 with a value that this program does not know at startedAt; "
        r"use Inferometer "
    )
    with pytest.raises(UnreadableDocumentError, match=message):
        read_result(json.dumps(content), source="result.json")


def test_a_text_without_json_is_refused() -> None:
    """The message says what to give instead."""
    with pytest.raises(UnreadableDocumentError, match=r"is not JSON\. Give a result\.json"):
        read_result("no JSON", source="result.json")
