"""A suite on a real API server whose cells are measured already: the results service knows them."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan import rights
from inferometer_api.results.service_paths import EXPLORER
from inferometer_api.suite.plan_suite import SuitePlan
from support.api_client import Api, Object
from support.cluster.control_plane import ControlPlane
from support.operator_process import ACCOUNT, rule
from support.results import an_environment
from support.results_service import ResultsServiceProcess, account_token
from support.stage import Stage
from support.suite_stage import (
    apply_suite,
    created_runs,
    finished_suite,
    short_suite,
    suite_condition,
    suite_status,
)
from support.suites import an_axis

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_DIGEST = f"sha256:{'0' * 64}"
"""That of each container of the played nodes."""
_NODE = an_environment().node.hostname


@pytest.fixture
def service(
    api_server: ControlPlane, api: Api, stage: Stage, tmp_path: Path
) -> Iterator[ResultsServiceProcess]:
    """Run a results service, and let the operator list nodes: one holds its images."""
    stage.operator_token()
    images = [
        {"names": [f"registry.test/{each}:1", f"registry.test/{each}@{_DIGEST}"]}
        for each in ("serving", "loadgen")
    ]
    metadata = {"name": _NODE, "labels": {"pool": stage.namespace}}
    api.create("Node", None, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    api.merge("Node", None, _NODE, {"status": {"images": images}}, "status")
    name = f"{ACCOUNT}-{stage.namespace}-nodes"
    rules = [rule(right) for right in rights.NODES]
    api.ask("POST", f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "namespace": stage.namespace, "name": ACCOUNT}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    api.ask("POST", f"{_RBAC}/clusterrolebindings", binding)
    process = ResultsServiceProcess(api_server, api, tmp_path, f"{stage.namespace}/{ACCOUNT}")
    with closing(process):
        yield process
    api.delete("Node", None, _NODE)
    for plural in ("clusterroles", "clusterrolebindings"):
        api.ask("DELETE", f"{_RBAC}/{plural}/{name}")


@pytest.fixture
def settings(
    api: Api, stage: Stage, service: ResultsServiceProcess, tmp_path: Path
) -> dict[str, Any]:
    """Return the operator's settings, with a token for the service in a file."""
    token = tmp_path / "token"
    token.write_text(account_token(api, stage.namespace, ACCOUNT, for_results=True))
    results = {
        "url": service.url,
        "authorityFile": str(service.authority),
        "tokenFile": str(token),
    }
    return {"readNodes": True, "results": results}


def _suite(stage: Stage, name: str, *values: str, **spec: Any) -> Object:
    suite = short_suite(name, axes=[an_axis("stack", *values)], **spec)
    server = {"placement": {"nodeSelector": {"pool": stage.namespace}}}
    suite["spec"]["template"]["spec"]["server"] = server
    return suite


def _measured(stage: Stage, suite: Object) -> SuitePlan:
    """Measure a suite, and wait until its results are stored."""
    plan = apply_suite(stage, suite)
    finished_suite(stage, suite["metadata"]["name"])
    for run in plan.runs:
        stage.wait("Stored", "Stored", name=run.name)
    # The operator knows the API server's time to half a second.
    stored = time.monotonic()
    stage.wait_for(lambda: time.monotonic() > stored + 1.5, "a time after the deliveries")
    return plan


def test_a_cell_that_is_measured_already_is_reused_and_says_so(
    api_server: ControlPlane, stage: Stage, settings: dict[str, Any]
) -> None:
    """Only with `reuse`; the others are measured; status and page name the stored results."""
    stage.start_operator(**settings)
    first = _measured(stage, _suite(stage, "first", "old", "new"))
    second = apply_suite(stage, _suite(stage, "second", "old", "new", "newer", reuse=True))
    status = finished_suite(stage, "second")
    measured = [run.name for run in second.runs if dict(run.cell.values)["stack"] == "newer"]
    assert created_runs(stage) == [run.name for run in first.runs] + measured
    letters = ["V" if run.name in measured else "R" for run in second.runs]
    assert status["states"] == "".join(letters)
    assert (status["cells"]["reused"], status["cells"]["valid"]) == (2, 1)
    stored = {stage.status(run.name)["result"]["stored"]["id"] for run in first.runs}
    assert {each["result"] for each in status["reused"]} == stored
    accepted = suite_condition(stage, "Accepted", "second")["message"]
    assert accepted == "3 cells, 3 runs. 2 runs reuse stored results."
    assert "2 runs reuse stored results." in suite_condition(stage, "Complete", "second")["message"]
    assert status["scenarios"][0]["best"]["run"] in {run.name for run in second.runs}
    stage.wait_for(lambda: suite_status(stage, "second").get("page"), "the page")
    shown = api_server.kubectl("get", "--raw", f"{EXPLORER}/suites/second")
    assert "3 of 3 runs are over: 1 VALID, 2 reused." in shown
    for id_ in stored:
        assert f"/results/{id_}" in shown
    third = _measured(stage, _suite(stage, "third", "old"))
    assert created_runs(stage)[-1] == third.runs[0].name


def test_an_operator_that_takes_over_keeps_what_is_reused(
    stage: Stage, settings: dict[str, Any]
) -> None:
    """It looks up the same results, and starts nothing for them."""
    operator = stage.start_operator(**settings)
    _measured(stage, _suite(stage, "first", "old"))
    stage.play("loadgen", stage.loads.follow)
    second = apply_suite(stage, _suite(stage, "second", "old", "new", reuse=True))
    (left,) = (run for run in second.runs if dict(run.cell.values)["stack"] == "new")
    stage.wait_for(lambda: stage.loads.there(left.name), lambda: f"{left.name}\n{stage.logs()}")
    before = suite_status(stage, "second")
    assert len(before["reused"]) == 1
    operator.kill()
    stage.start_operator(**settings)
    load = stage.load(left.name)
    load.judge("latency")
    load.end()
    status = finished_suite(stage, "second")
    assert sorted(status["states"]) == ["R", "V"]
    assert status["reused"] == before["reused"]
    assert created_runs(stage)[1:] == [left.name]


def test_a_suite_waits_until_the_service_shows_what_is_stored(
    stage: Stage, service: ResultsServiceProcess, settings: dict[str, Any]
) -> None:
    """Nothing starts meanwhile: it might be measured already. The condition has the reason."""
    stage.start_operator(**settings)
    service.kill()
    plan = apply_suite(stage, _suite(stage, "waits", "old", reuse=True))
    stage.wait_for(
        lambda: suite_condition(stage, "Finished", "waits").get("reason") == "StoreUnreachable",
        lambda: json.dumps(suite_status(stage, "waits")) + stage.logs(),
    )
    assert "does not answer" in suite_condition(stage, "Finished", "waits")["message"]
    assert created_runs(stage) == []
    service.start()
    assert finished_suite(stage, "waits")["states"] == "V"
    assert created_runs(stage) == [plan.runs[0].name]


def test_without_a_results_service_such_a_suite_is_refused(stage: Stage) -> None:
    """The condition has the settings that are missing."""
    stage.start_operator()
    apply_suite(stage, short_suite(reuse=True))
    finished_suite(stage)
    accepted = suite_condition(stage, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "NotAvailable")
    assert "no results service" in accepted["message"]
    assert created_runs(stage) == []
