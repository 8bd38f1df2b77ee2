"""A fleet on two nodes measures as one load generator, and names a worker that it loses."""

import base64
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from inferometer_api.plan.cluster_objects import (
    ALLOW_USE_LABEL,
    COMPONENT_LABEL,
    JOB_INDEX_LABEL,
    LOADGEN,
    RESULT_FILE,
    RUN_LABEL,
    load_service_name,
)
from inferometer_api.results.result import ResultDocument
from support.cluster.cluster import Cluster
from support.node_runs import condition, holds, make_run, status, wait_for
from support.operator_installed import operator_installed
from support.oracle_http import MODEL
from support.secured_server import headers_heard, urls_of
from support.tls_party import files
from support.waiting import wait_until

TESTS = Path(__file__).parents[1]
SERVER = TESTS.parent / "examples" / "06-external-service" / "server.yaml"
VALUES = {"load": {"resources": {"cpu": "50m", "memory": "256Mi"}}, "allowSecrets": True}
RATE_QPS, SECONDS = 20, 6
LONG_SECONDS = 120


def _run(cluster: Cluster, namespace: str, name: str, seconds: int, *more: dict[str, Any]) -> None:
    """Create a run with two workers against the external server."""
    make_run(
        cluster,
        namespace,
        name,
        model={"name": "squeezenet1_1"},
        server={
            "runtime": "External",
            "external": {"service": {"name": "squeezenet", "port": 8001}},
            "readyDeadlineSeconds": 60,
        },
        load={"protocol": "GRPC", "workers": 2, "headersSecret": "token"},
        scenarios=[{"name": "traffic", "server": {"targetQps": RATE_QPS}}, *more],
        validity={"warmUpSeconds": 1, "minDurationSeconds": seconds, "minQueries": 10},
    )


def _load_pods(cluster: Cluster, namespace: str, run: str) -> dict[int, dict[str, Any]]:
    selector = f"--selector={COMPONENT_LABEL}={LOADGEN},{RUN_LABEL}={run}"
    found = cluster.get("pods", selector, "--namespace", namespace)["items"]
    return {int(pod["metadata"]["labels"][JOB_INDEX_LABEL]): pod for pod in found}


def _result(cluster: Cluster, namespace: str, run: str) -> ResultDocument:
    status = cluster.get("benchmarkrun", run, "--namespace", namespace)["status"]
    (part,) = status["result"]["configMaps"]
    words = ("configmap", part, "--namespace", namespace)
    held = cluster.get(*words)["binaryData"][RESULT_FILE]
    return ResultDocument.model_validate_json(gzip.decompress(base64.b64decode(held)))


def test_a_fleet_measures_from_two_nodes(
    two_nodes: Cluster, tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """Two workers on two nodes share one schedule; losing one makes the run INVALID.

    A server outside the cluster that requires certificates and headers is measured over HTTP
    and gRPC.
    """
    values = VALUES | {"externalAllowList": [two_nodes.wire.cluster]}
    with operator_installed(two_nodes, "fleet", values) as namespace:
        two_nodes.kubectl("apply", "--namespace", namespace, "-f", str(SERVER))
        words = ("rollout", "status", "--namespace", namespace, "deployment/squeezenet")
        two_nodes.kubectl(*words, "--timeout=90s")
        _provide(two_nodes, namespace, tmp_path)
        replay = {"name": "replay", "trace": {"uri": "configmap://times/arrivals.csv"}}
        _run(two_nodes, namespace, "whole", SECONDS, replay)
        wait_for(two_nodes, namespace, "whole", "Measuring")
        pods = _load_pods(two_nodes, namespace, "whole")
        assert sorted(pods) == [0, 1, 2]
        assert {pods[index]["spec"]["nodeName"] for index in (1, 2)} == set(two_nodes.nodes)
        wait_for(two_nodes, namespace, "whole", "Complete")
        late = _measured_as_one(two_nodes, namespace, master=pods[0]["spec"]["nodeName"])
        with _secured_server(two_nodes, tmp_path) as urls:
            for protocol, url in urls.items():
                _is_measured_over_tls(two_nodes, namespace, protocol, url)
        # Without the request that only tests the handshake and closes.
        requests = [each for each in headers_heard(tmp_path) if each.get("connection") != "close"]
        assert {each.get("x-team") for each in requests} == {"a b"}
        _loses_a_worker(two_nodes, namespace)
    # By a wrong sign each would begin as late as the clocks are apart; so does a busy machine.
    require_quiet()
    assert all(abs(offset_ns) < apart_ns / 10 for offset_ns, apart_ns in late), late


@contextmanager
def _secured_server(cluster: Cluster, folder: Path) -> Iterator[dict[str, str]]:
    words = ("-m", "support.secured_server", cluster.wire.cluster, folder)
    process = cluster.start_in_control_plane(
        "secured", ["env", f"PYTHONPATH={TESTS}", sys.executable, *words]
    )
    try:
        wait_until((folder / "urls.json").exists, "the secured server", [process])
        yield urls_of(folder)
    finally:
        process.kill()


def _is_measured_over_tls(cluster: Cluster, namespace: str, protocol: str, url: str) -> None:
    name = f"secured-{protocol.lower()}"
    make_run(
        cluster,
        namespace,
        name,
        model={"name": MODEL},
        server={"runtime": "External", "external": {"url": url}},
        load={
            "protocol": protocol,
            "workers": 2,
            "headersSecret": "token",
            "tls": {"caSecret": "authority", "clientSecret": "client", "serverName": "model.test"},
        },
        scenarios=[{"name": "traffic", "server": {"targetQps": RATE_QPS}}],
        validity={"warmUpSeconds": 1, "minDurationSeconds": SECONDS, "minQueries": 10},
    )
    wait_for(cluster, namespace, name, "Complete")
    (step,) = _result(cluster, namespace, name).scenarios[0].steps
    assert step.counts.failed == 0
    assert all(each.queries for each in step.workers)


def _provide(cluster: Cluster, namespace: str, folder: Path) -> None:
    """Create the headers, the certificates and the trace that the runs refer to."""
    here = ("--namespace", namespace)
    cluster.kubectl("create", "secret", "generic", "token", "--from-literal=X-Team=a b", *here)
    times = "\n".join(str(index / 20) for index in range(RATE_QPS * SECONDS))
    words = ("create", "configmap", "times", f"--from-literal=arrivals.csv={times}")
    cluster.kubectl(*words, *here)
    client = files(folder, "client")
    pair = (f"--cert={client.certificate}", f"--key={client.key}")
    cluster.kubectl("create", "secret", "tls", "client", *pair, *here)
    authority = f"--from-file=ca.crt={client.authority}"
    cluster.kubectl("create", "secret", "generic", "authority", authority, *here)
    for what, use in (
        ("secret/token", "headers"),
        ("secret/client", "tls"),
        ("secret/authority", "tls"),
        ("configmap/times", "true"),
    ):
        cluster.kubectl("label", what, f"{ALLOW_USE_LABEL}={use}", *here)


def _measured_as_one(cluster: Cluster, namespace: str, master: str) -> list[tuple[int, int]]:
    """Check a run of two workers; return how late each began and how far its clock is, in ns."""
    document = _result(cluster, namespace, "whole")
    assert "a b" not in document.model_dump_json()
    replayed = document.scenarios[1].steps[0]
    assert replayed.counts.queries == RATE_QPS * SECONDS
    assert sum(each.queries for each in replayed.workers) == replayed.counts.queries
    (step,) = document.scenarios[0].steps
    assert len(step.workers) == 2
    assert {each.node for each in step.workers} == set(cluster.nodes)
    assert sum(each.queries for each in step.workers) == step.counts.queries
    assert step.counts.queries > RATE_QPS * SECONDS / 2
    ahead = {name: node.clock_ahead_seconds for name, node in cluster.nodes.items()}
    for each in step.workers:
        assert each.queries > 0
        # The nodes' clocks are far apart, as those of machines are.
        offset = (ahead[each.node or ""] - ahead[master]) * 10**9
        assert abs(each.clock_offset_nanoseconds - offset) <= each.clock_uncertainty_nanoseconds
    wait_until(
        partial(holds, cluster, namespace, "whole", "Finished"), "the end", deadline_seconds=60
    )
    left = cluster.get("services", "--namespace", namespace)["items"]
    assert load_service_name("whole") not in {each["metadata"]["name"] for each in left}
    apart_ns = max(ahead.values()) * 10**9
    return [(each.start_offset_nanoseconds, apart_ns) for each in step.workers if apart_ns]


def _loses_a_worker(cluster: Cluster, namespace: str) -> None:
    """Kill the pod of the second worker while it measures."""
    _run(cluster, namespace, "broken", LONG_SECONDS)
    wait_for(cluster, namespace, "broken", "Measuring")
    worker = _load_pods(cluster, namespace, "broken")[2]["metadata"]["name"]
    words = ("delete", "pod", worker, "--namespace", namespace, "--grace-period=0", "--force")
    cluster.kubectl(*words)
    wait_until(
        partial(holds, cluster, namespace, "broken", "Finished"),
        "the end of a run that lost a worker",
        deadline_seconds=LONG_SECONDS,
        poll_seconds=0.5,
    )
    ended = status(cluster, namespace, "broken")
    failed = condition(cluster, namespace, "broken", "Failed")
    assert failed.get("reason") in {None, "WorkerLost"}, json.dumps(ended, indent=1)
    verdict = _result(cluster, namespace, "broken").scenarios[0].verdict
    assert verdict.state == "INVALID"
    assert any(each.rule == "WorkerLost" for each in verdict.reasons), verdict
    assert "worker 1" in str(verdict.reasons).lower()
