"""Results of every released format stay readable: tests/data/results holds one of each.

A file is named after its schema version. When the format changes, add a result of the new version
(`inferometer run --output DIR`, compact JSON) and keep the others.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from docgen.files import CHECKOUT

from inferometer_api.results.reading import UnreadableResultError, read_result
from inferometer_api.results.result import SCHEMA_VERSION
from inferometer_results.compare.comparison import compare
from inferometer_results.report import render_report

FILES = sorted((CHECKOUT / "tests/data/results").glob("*.json"))
_MAPS = {"labels", "annotations", "settings", "packages", "images", "errors", "shapes"}
_MAPS |= {"graphNodesByProvider", "watts", "nodeSelector", "gpuUtilization", "gpuMemoryBytes"}
_MAPS |= {"gpuClockHertz", "gpuThrottleReasons"}
"""Fields with keys that the user or the machine chooses."""


def test_the_present_format_has_a_result() -> None:
    """There is a result with the current schema version."""
    versions = {json.loads(file.read_text())["schemaVersion"] for file in FILES}
    assert SCHEMA_VERSION in versions


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_kept_result_is_read_reported_and_compared(file: Path) -> None:
    """A result of any released version is read without a notice, rendered and compared."""
    read = read_result(file.read_bytes(), source=file.name)
    assert read.notice == ""
    assert read.document.scenarios
    page = render_report(read.document)
    assert all(scenario.name in page for scenario in read.document.scenarios)
    assert compare(read.document, read.document).pairs


def _with_unknown_fields(value: Any, key: str = "") -> Any:
    if isinstance(value, list):
        return [_with_unknown_fields(each) for each in value]
    if not isinstance(value, dict) or key in _MAPS:
        return value
    members = {name: _with_unknown_fields(each, name) for name, each in value.items()}
    return {**members, "fieldOfTheFuture": {"a": [1]}}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_unknown_fields_are_ignored_at_every_level(file: Path) -> None:
    """A newer minor version reads as the same document, with a notice that names both versions."""
    content = json.loads(file.read_text())
    major = SCHEMA_VERSION.partition(".")[0]
    newer = _with_unknown_fields(content) | {"schemaVersion": f"{major}.999"}
    read = read_result(json.dumps(newer), source="newer.json")
    expected = read_result(json.dumps(content), source=file.name).document
    assert read.document.model_copy(update={"schema_version": expected.schema_version}) == expected
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
    with pytest.raises(UnreadableResultError, match=message):
        read_result(json.dumps(content), source="result.json")


def test_a_text_without_json_is_refused() -> None:
    """The message says what to give instead."""
    with pytest.raises(UnreadableResultError, match=r"is not JSON\. Give a result\.json"):
        read_result("no JSON", source="result.json")
