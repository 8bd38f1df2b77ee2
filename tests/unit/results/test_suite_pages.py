"""Suites in the explorer, and what the store knows of earlier executions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from inferometer_results.service.access_rules import AccessRules
from inferometer_results.service.app import create_app
from inferometer_results.store.store import Store
from inferometer_results.suites.stored import executions, stored_baseline, stored_pairs
from support.stored_results import CLUSTER, ORIGIN, a_document

_NAME = "nightly"


def a_suite_result(number: int, execution: str, role: str = "cell", model: str = "big") -> bytes:
    """Return the result of a run of a suite."""
    document = json.loads(a_document(number))
    labels = {
        "inferometer.dev/suite": _NAME,
        "inferometer.dev/suite-execution": execution,
        "inferometer.dev/suite-cell": f"key-{model}",
        "inferometer.dev/suite-block": "1",
        "inferometer.dev/suite-role": role,
        "axis.inferometer.dev/model": model,
        "axis.inferometer.dev/protocol": "grpc",
    }
    document["run"]["metadata"]["labels"] = labels
    document["run"]["metadata"]["namespace"] = "bench"
    document["startedAt"] = f"2026-02-01T00:{number:02}:00.000Z"
    for scenario in document["scenarios"]:
        scenario["verdict"] = {"state": "VALID", "reasons": [], "cautions": []}
    document["outcome"]["state"] = "Complete"
    return json.dumps(document).encode()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store with two executions of a suite, and a result of none."""
    with Store(str(tmp_path / "results.db")) as found:
        contents = [a_document(0)]
        for start, execution in ((1, "first"), (11, "second")):
            contents += [
                a_suite_result(start, execution, "opening"),
                a_suite_result(start + 1, execution),
                a_suite_result(start + 2, execution, model="small"),
                a_suite_result(start + 3, execution, "closing"),
            ]
        for content in contents:
            found.add(content, ORIGIN, source="x")
        yield found


def test_executions_pairs_and_baselines_come_from_labels(store: Store) -> None:
    """The newest execution first; a pair from each block; the figures of cells alone."""
    found = executions(store, _NAME)
    assert [(name, len(rows)) for name, rows in found.items()] == [
        ("bench/second", 4),
        ("bench/first", 4),
    ]
    (pairs,) = stored_pairs(found)
    assert pairs.ratios_parts_per_million == [1_000_000, 1_000_000]
    assert CLUSTER["environment"]["node"]["cpuModel"] in pairs.node_class
    baseline = stored_baseline(found["bench/second"])
    assert set(baseline) == {("key-big", ""), ("key-small", "")}
    assert all(
        "p50" in figures for runs in baseline.values() for run in runs for figures in run.values()
    )


def test_the_explorer_shows_each_suite_and_its_executions(store: Store) -> None:
    """The list, the newest execution, an older one, and clear refusals."""
    app = create_app(store, AccessRules(), "1.2.3", lambda: 0.0)
    with TestClient(app, base_url="http://127.0.0.1:8090") as client:
        assert f'<a href="/suites/{_NAME}">' in client.get("/suites").text
        (listed,) = client.get("/api/v1/suites").json()
        assert (listed["suite"], listed["count"]) == (_NAME, 8)
        page = client.get(f"/suites/{_NAME}")
        assert page.status_code == 200
        assert "<b>bench/second</b>" in page.text
        assert "heat-5" in page.text
        assert '<a href="/results/' in page.text
        assert f"/suites/{_NAME}?execution=bench/first" in page.text
        older = client.get(f"/suites/{_NAME}", params={"execution": "bench/first"})
        assert "<b>bench/first</b>" in older.text
        assert client.get("/suites/none").status_code == 400
        assert "has no execution third" in client.get(f"/suites/{_NAME}?execution=third").text
        assert client.get('/suites/a"b').status_code == 400
