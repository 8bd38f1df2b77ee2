"""A load generator in a pod answers, ends and hands its result over."""

import fcntl
import hashlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.plan.exporting import ExportManifest
from inferometer_api.plan.load_plan import LoadNodeFault, PlannedServer
from inferometer_api.plan.result_folder import DOCUMENT_FILE, LOCK_FILE, MANIFEST_FILE
from inferometer_api.results.result import ResultDocument
from support.load_pods import RUN_ID, TOKEN, a_load_pod, measures
from support.load_runs import a_plan
from support.oracle_process import oracle_process
from support.oracle_script import Script, delayed

CLOSED: dict[str, Any] = {"singleStream": {}}
OPEN: dict[str, Any] = {"server": {"targetQps": 90}}
LONG = {"minDurationSeconds": 60, "maxDurationSeconds": 120}
UNREACHABLE = "http://127.0.0.1:1"


def test_a_run_is_handed_over(tmp_path: Path) -> None:
    """The log has the whole document, the termination message its summary and checksum."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, OPEN)
        node = {**os.environ, "NODE_NAME": "node-7", "POD_NAME": "load-x"}
        with a_load_pod(plan, tmp_path, node) as pod:
            seen = pod.until(lambda report: bool(report.scenarios))
            handed = pod.ended()
    assert handed.exit_code == 0
    document = handed.document
    assert document is not None
    assert document.outcome.state == "Complete"
    assert document.run_id == RUN_ID
    assert [scenario.name for scenario in document.scenarios] == ["s0", "s1"]
    assert document.first_query_at is not None
    assert document.started_at < document.first_query_at < document.finished_at
    environment = document.environment
    assert environment is not None
    assert (environment.place, environment.node.hostname) == ("Cluster", "node-7")
    assert handed.report.outcome == document.outcome
    assert handed.report.document_sha256
    assert handed.report.document_missing_reason == ""
    # Both scenarios' summaries fit, and the first was reported as soon as it was judged.
    assert [summary.name for summary in handed.report.scenarios] == ["s0", "s1"]
    assert seen.scenarios[0].p99_microseconds == handed.report.scenarios[0].p99_microseconds
    stages = [line.partition(" ")[2] for line in handed.log]
    assert "s1: measuring." in stages
    assert stages[-1] == "Complete (Measured)."
    assert len(stages) < 15


def test_a_run_is_left_for_its_exporter(tmp_path: Path) -> None:
    """The folder is locked as long as it measures, and then has the whole document."""
    results = tmp_path / "results"
    results.mkdir()
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, validity=LONG)
        with a_load_pod(plan, tmp_path, results=results) as pod:
            pod.until(measures)
            with (results / LOCK_FILE).open("rb") as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            assert not (results / MANIFEST_FILE).exists()
            assert pod.stop() == 202
            handed = pod.ended()
    with (results / LOCK_FILE).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    text = (results / DOCUMENT_FILE).read_bytes()
    assert ResultDocument.model_validate_json(text) == handed.document
    (file,) = ExportManifest.model_validate_json((results / MANIFEST_FILE).read_text()).files
    assert (file.name, file.sha256) == (DOCUMENT_FILE, hashlib.sha256(text).hexdigest())


def test_progress_moves(tmp_path: Path) -> None:
    """While it measures, /progress reports more and more queries."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, validity=LONG)
        with a_load_pod(plan, tmp_path) as pod:
            first = pod.until(measures).progress
            assert first is not None
            later = pod.until(lambda report: (report.progress or first).queries > first.queries)
    assert later.progress is not None
    assert later.progress.fraction > first.fraction
    assert later.outcome is None


@pytest.mark.parametrize("how", ["stop", "signal"])
def test_a_requested_end_keeps_the_measurements(how: str, tmp_path: Path) -> None:
    """POST /stop with the token ends it as SIGTERM does: Terminated, with what was measured."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, OPEN, validity=LONG)
        with a_load_pod(plan, tmp_path) as pod:
            pod.until(measures)
            if how == "stop":
                assert pod.stop() == 202
            else:
                pod.process.send_signal(signal.SIGTERM)
            handed = pod.ended()
    assert handed.exit_code == 143
    document = handed.document
    assert document is not None
    assert document.outcome.state == "Terminated"
    (scenario,) = document.scenarios
    assert scenario.verdict.state == "INVALID"
    assert scenario.steps[0].counts.succeeded > 0
    assert handed.report.scenarios[0].verdict == "INVALID"


def test_only_the_token_holder_may_end_it(tmp_path: Path) -> None:
    """Without the token, or with another one, nothing ends; other paths and methods are 404."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, validity=LONG)
        with a_load_pod(plan, tmp_path) as pod:
            pod.until(measures)
            for headers in (
                {},
                {"Authorization": TOKEN},
                {"Authorization": f"Basic {TOKEN}"},
                {"Authorization": f"Bearer {TOKEN}x"},
                {"Authorization": f"Bearer {TOKEN[:-1]}"},
                {"Authorization": "Bearer "},
                {"Authorization": "Bearer \xe9"},
            ):
                assert pod.ask("POST", "/stop", headers)[0] == 403
            for method, path in (
                ("GET", "/stop"),
                ("POST", "/progress"),
                ("GET", "/"),
                ("GET", "/progress/"),
                ("GET", "/../etc/passwd"),
                ("DELETE", "/progress"),
            ):
                assert pod.ask(method, path, {"Authorization": f"Bearer {TOKEN}"})[0] == 404
            large = {"Authorization": f"Bearer {TOKEN}"}
            assert pod.ask("POST", "/stop", large, body=bytes(10_000))[0] == 413
            assert pod.progress().outcome is None


def test_without_a_token_in_the_plan_the_stop_endpoint_is_disabled(tmp_path: Path) -> None:
    """An empty token in the plan is no token: an empty one does not fit it."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, validity=LONG)
        with a_load_pod(plan, tmp_path, token="") as pod:
            pod.until(measures)
            assert pod.stop("") == 403
            assert pod.stop() == 403
            assert pod.progress().outcome is None


def test_what_is_no_http_does_no_harm(tmp_path: Path) -> None:
    """Bytes that are no request, a head without end and an open connection end no measurement."""
    with oracle_process(delayed(0.002)) as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED, validity=LONG)
        with a_load_pod(plan, tmp_path) as pod:
            here = ("127.0.0.1", pod.port)
            with (
                socket.create_connection(here, timeout=60) as garbage,
                socket.create_connection(here, timeout=60) as endless,
                socket.create_connection(here, timeout=60),
            ):
                garbage.sendall(b"\x00\xff what is this?\r\n\r\n")
                assert garbage.recv(100).startswith(b"HTTP/1.")
                endless.sendall(b"GET /progress HTTP/1.1\r\nX: " + b"x" * 20_000)
                assert b" 400 " in endless.recv(100)
                pod.until(measures)
                assert pod.stop() == 202
                assert pod.ended().exit_code == 143


def test_an_invalid_scenario_is_no_failure_of_the_pod(tmp_path: Path) -> None:
    """Measured but INVALID: the exit code is 0, and the verdict is in what is handed over."""
    with oracle_process(delayed(0.05)) as oracle:
        plan = a_plan(
            oracle.url("HTTP"), {"server": {"targetQps": 50, "latencyBoundMicroseconds": 1000}}
        )
        with a_load_pod(plan, tmp_path) as pod:
            handed = pod.ended()
    assert handed.exit_code == 0
    assert handed.report.scenarios[0].verdict == "INVALID"
    assert handed.document is not None
    assert not handed.document.valid


@pytest.mark.parametrize(
    ("more", "code", "state", "reason"),
    [
        ({"model": "another"}, 2, "Refused", "ModelRefused"),
        (
            {"spec": {"server": {"runtime": "External", "readyDeadlineSeconds": 1}}},
            1,
            "Failed",
            "ServerNotReady",
        ),
    ],
)
def test_refusals_and_failures_are_handed_over(
    more: dict[str, Any], code: int, state: str, reason: str, tmp_path: Path
) -> None:
    """A refusal ends with 2, a failure with 1; both leave a document and a summary."""
    with oracle_process(Script(ready="model" in more)) as oracle:
        url = oracle.url("HTTP")
        if "spec" in more:
            more = {"spec": {"server": {**more["spec"]["server"], "external": {"url": url}}}}
        with a_load_pod(a_plan(url, CLOSED, **more), tmp_path) as pod:
            handed = pod.ended()
    assert handed.exit_code == code
    assert handed.document is not None
    assert handed.document.outcome == handed.report.outcome
    assert handed.report.outcome is not None
    assert (handed.report.outcome.state, handed.report.outcome.reason) == (state, reason)
    assert handed.document.first_query_at is None


def test_an_invalid_plan_is_reported(tmp_path: Path) -> None:
    """Without a plan there is no document, and the summary says why."""
    with a_load_pod(None, tmp_path) as pod:
        handed = pod.ended()
    assert handed.exit_code == 2
    assert handed.document is None
    assert handed.report.outcome is not None
    assert handed.report.outcome.reason == "InvalidPlan"


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """If it cannot listen, it could not be stopped: it fails before it measures."""
    with socket.create_server(("127.0.0.1", 0)) as taken, oracle_process() as oracle:
        plan = a_plan(oracle.url("HTTP"), CLOSED)
        port = taken.getsockname()[1]
        with a_load_pod(plan, tmp_path, port=port) as pod:
            handed = pod.ended()
        assert oracle.received == 0
    assert handed.exit_code == 1
    assert handed.report.outcome is not None
    assert str(port) in handed.report.outcome.message


def test_cautions_of_a_cluster(tmp_path: Path) -> None:
    """Cautions name the load's own node: as the server's, and as unfit; others do not count."""
    with oracle_process(delayed(0.002)) as oracle:
        url = oracle.url("HTTP")
        server = PlannedServer(
            url=url, pod="server-0", node="node-7", quality_of_service="Burstable"
        )
        faults = [
            LoadNodeFault(node=node, sentence=f"{node} was slow.", figure="2", limit="1")
            for node in ("node-6", "node-7")
        ]
        plan = a_plan(url, CLOSED).model_copy(
            update={"servers": [server], "load_node_faults": faults}
        )
        with a_load_pod(plan, tmp_path, {**os.environ, "NODE_NAME": "node-7"}) as pod:
            document = pod.ended().document
    assert document is not None
    assert document.environment is not None
    (replica,) = document.environment.server.replicas
    assert (replica.pod, replica.node, replica.quality_of_service) == (
        "server-0",
        "node-7",
        "Burstable",
    )
    cautions = document.scenarios[0].verdict.cautions
    assert {"ServerColocated", "ServerNotGuaranteed"} <= {each.rule for each in cautions}
    (unfit,) = (each.message for each in cautions if each.rule == "LoadNodeUnfit")
    assert unfit.startswith("node-7 was slow.")
