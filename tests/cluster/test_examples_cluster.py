"""In a cluster, every example ends as its comment states, most over both HTTP and gRPC.

Their windows are shortened. All are created at once, and the operator executes them in turn.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferometer_api.results.reading import read_result
from support.cluster.cluster import Cluster
from support.node_runs import wait_for_reason
from support.operator_installed import operator_installed
from support.waiting import wait_until

FOLDER = Path(__file__).parents[2] / "examples"
ELSEWHERE = (
    *("14-suite", "16-servers", "20-bricks", "22-cold-starts"),
    *("21-kserve", "23-node-probe", "25-model-cache", "26-pipeline"),
)
"""tests/cluster/test_suites.py has suites like these; KServe, nodes, the model cache and pipelines
have tests of their own."""
FILES = sorted(path for path in FOLDER.glob("*.yaml") if path.stem not in ELSEWHERE)
PROTOCOLS = ("HTTP", "GRPC")
ITS_OWN = {
    "05-overloaded": "HTTP",
    "07-own-model-on-cluster": "GRPC",
    "15-layers": "HTTP",
    "19-bound": "HTTP",
}
"""Examples whose protocol is fixed: a test below names their run, or it is requested over HTTP."""
CASES = [
    (file, protocol)
    for place, file in enumerate(FILES)
    for protocol in (ITS_OWN.get(file.stem, PROTOCOLS[place % 2]),)
]
"""Each example once; tests/local measures over both protocols."""
PLUGIN = str(Path(sys.executable).with_name("kubectl-inferometer"))
ENDS_SECONDS = 420.0
"""Far above the total time of all runs."""
SHORTER = {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 1}
TINY_LOAD = {"load": {"resources": {"cpu": "100m", "memory": "512Mi"}}}
"""Small requests, so that a fleet and its server fit on a small node."""
OVERLOADED = "05-overloaded"
GPU = "08-resnet50-gpu"


def _ids(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


def _name(file: Path, protocol: str) -> str:
    return f"{file.stem[3:]}-{protocol.lower()}"


def _documented_end(file: Path) -> tuple[str, str]:
    """Return the condition, and its status or reason, that the example's comment states."""
    lines = takewhile(lambda line: line.startswith("#"), file.read_text().splitlines())
    comment = " ".join(line.removeprefix("#").strip() for line in lines)
    text = comment.partition("In a cluster: ")[2]
    patterns = {
        "Accepted": r"(?:no node has a free GPU, the run is Queued|is not accepted,) "
        r"with the reason (\w+)",
        "Valid": r"ends Complete with Valid=(True|False)",
        "Failed": r"Failed with reason (\w+)",
    }
    found = {kind: re.search(pattern, text) for kind, pattern in patterns.items()}
    return next((kind, match[1]) for kind, match in found.items() if match is not None)


def _run(file: Path, protocol: str) -> dict[str, Any]:
    """Return an example's run in this protocol, shortened."""
    run: dict[str, Any] = yaml.safe_load(file.read_text())
    spec = run["spec"]
    run["metadata"]["name"] = _name(file, protocol)
    spec.setdefault("load", {})["protocol"] = protocol
    spec["validity"] |= SHORTER
    for scenario in spec["scenarios"]:
        if "batch" in scenario:
            del scenario["batch"]["batchSizes"][2:]
        if "concurrency" in scenario:
            del scenario["concurrency"]["clients"][2:]
        if "findPeak" in scenario:
            scenario["findPeak"]["probe"] = {"minQueries": 20, "maxSeconds": 2}
            spec["validity"]["maxDurationSeconds"] = 30
    server = spec.get("server", {})
    external = server.get("external", {})
    if protocol == "GRPC" and "service" in external:
        external["service"]["port"] = 8001
    if protocol == "GRPC" and "url" in external:
        external["url"] = external["url"].replace("http", "grpc")
    if file.stem == GPU:
        server["readyDeadlineSeconds"] = 15
    return run


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    """Install an operator and the examples' prerequisites, and create every example."""
    with operator_installed(cluster, "examples", TINY_LOAD) as name:
        _provide(cluster, name)
        for file, protocol in CASES:
            _create(cluster, name, _run(file, protocol))
        yield name


def _create(cluster: Cluster, namespace: str, thing: dict[str, Any]) -> None:
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(thing))


def _provide(cluster: Cluster, namespace: str) -> None:
    """Follow the comments of examples 06 and 07, with the storage of `make cluster-up`."""
    cluster.provide_storage()
    here = ("--namespace", namespace)
    cluster.kubectl("apply", *here, "-f", str(FOLDER / "06-external-service" / "server.yaml"))
    files = f"--from-file={FOLDER / '04-own-model'}"
    cluster.kubectl("create", "configmap", "own-model", files, *here)
    cluster.kubectl("label", "configmap", "own-model", "inferometer.dev/allow-use=true", *here)
    claim = FOLDER / "07-own-model-on-cluster" / "claim.yaml"
    cluster.kubectl("apply", *here, "-f", str(claim))
    cluster.kubectl("wait", *here, "job/own-model", "--for=condition=Complete", "--timeout=120s")
    cluster.kubectl("rollout", "status", *here, "deployment/squeezenet", "--timeout=120s")


def _finished(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    """Wait until a run is Finished; return its status with the conditions by type."""
    found: dict[str, Any] = {}

    def is_finished() -> bool:
        status = cluster.get("benchmarkrun", name, "--namespace", namespace).get("status", {})
        conditions = {each["type"]: each for each in status.get("conditions", [])}
        found.update(status | {"conditions": conditions})
        return bool(conditions.get("Finished", {}).get("status") == "True")

    wait_until(is_finished, f"the end of {name}", deadline_seconds=ENDS_SECONDS, poll_seconds=0.5)
    return found


def _plugin(cluster: Cluster, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    where = ("--namespace", namespace, "--kubeconfig", str(cluster.kubeconfig))
    return subprocess.run([PLUGIN, *words, *where], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("file", "protocol"), CASES, ids=_ids)
def test_an_example_ends_as_its_header_states(
    cluster: Cluster, namespace: str, file: Path, protocol: str
) -> None:
    """The run is Complete with the documented verdict, Failed or waiting with its reason."""
    kind, expected = _documented_end(file)
    if kind == "Accepted":  # no node of the tests has a GPU
        wait_for_reason(cluster, namespace, _name(file, protocol), "Accepted", expected)
        return
    status = _finished(cluster, namespace, _name(file, protocol))
    conditions = status["conditions"]
    if kind == "Failed":
        failed = conditions["Failed"]
        assert (failed["status"], failed["reason"]) == ("True", expected), failed["message"]
        return
    complete = conditions["Complete"]
    assert (complete["status"], complete["reason"]) == ("True", "Measured"), conditions
    scenarios = status["scenarios"]
    names = [each["name"] for each in _run(file, protocol)["spec"]["scenarios"]]
    assert [each["name"] for each in scenarios] == names
    assert all(each["queries"] > 0 for each in scenarios)
    # Queries of an overloaded server may wait past their time-out.
    assert file.stem == OVERLOADED or not any(each.get("errors") for each in scenarios)
    # A machine that is too busy to be punctual makes an example INVALID; nothing makes one VALID.
    assert conditions["Valid"]["status"] in {expected, "False"}, conditions["Valid"]["message"]


def test_the_overloaded_server_is_found_out(cluster: Cluster, namespace: str) -> None:
    """Its condition reports the latency bound, and its scenario the rate too."""
    status = _finished(cluster, namespace, "overloaded-http")
    assert "the bound is 500 ms" in status["conditions"]["Valid"]["message"]
    assert "at least 99 % is required" in " ".join(status["scenarios"][0]["reasons"])


def test_what_was_measured_can_be_taken_out(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """The exit code is the verdict's, and both run and exported file give the same report."""
    name = "own-model-on-cluster-grpc"
    status = _finished(cluster, namespace, name)
    valid = status["conditions"]["Valid"]["status"] == "True"
    shown = _plugin(cluster, namespace, "status", name)
    assert shown.returncode == (0 if valid else 3), shown.stderr
    assert "latency" in shown.stdout
    result_file = tmp_path / "result.json"
    assert _plugin(cluster, namespace, "result", name, "-o", str(result_file)).returncode == 0
    page = tmp_path / "cluster.html"
    drawn = _plugin(cluster, namespace, "report", name, "-o", str(page))
    assert drawn.returncode == 0, drawn.stderr
    local = [PLUGIN, "report", str(result_file), "-o", str(tmp_path / "local.html")]
    again = subprocess.run(local, capture_output=True, text=True, check=True)
    assert drawn.stdout == again.stdout
    assert page.read_text() == (tmp_path / "local.html").read_text()


def test_advice_comes_from_within_a_pod(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """Its engine runs the model as it is and rewritten; the report says what would be faster."""
    name = "bound-http"
    _finished(cluster, namespace, name)
    file, page = tmp_path / "result.json", tmp_path / "report.html"
    assert _plugin(cluster, namespace, "result", name, "-o", str(file)).returncode == 0
    document = read_result(file.read_bytes(), source=name).document
    layers = document.scenarios[0].steps[0].layers
    assert layers is not None
    assert layers.timings is not None, layers.unavailable
    found = layers.timings
    assert found.present in found.variants
    assert f"{found.present}:INT8" in found.variants, found.failed
    assert _plugin(cluster, namespace, "report", name, "-o", str(page)).returncode == 0
    assert "<h3>Advice on squeezenet1_1</h3>" in page.read_text()


@pytest.mark.parametrize("file", FILES, ids=_ids)
def test_a_preflight_predicts_failures(cluster: Cluster, namespace: str, file: Path) -> None:
    """A preflight blocks the examples that fail or cannot begin here, and no others."""
    checked = _plugin(cluster, namespace, "preflight", "-f", str(file))
    kind, _ = _documented_end(file)
    assert checked.returncode == (0 if kind == "Valid" else 2), checked.stdout


def test_a_gpu_is_a_resource_by_its_name(cluster: Cluster) -> None:
    """A server is scheduled to a node that offers its GPU resource, and its error is reported.

    The images of the tests have no CUDA, and the node's GPU is only a number in its status.
    """
    images = {"servingGpu": {"repository": "inferometer-serving"}}
    with operator_installed(cluster, "gpu", {"images": images}) as namespace:
        (node,) = cluster.get("nodes")["items"]
        patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1mig-1g.10gb", "value": "1"}]
        words = ("patch", "node", node["metadata"]["name"], "--subresource=status", "--type=json")
        cluster.kubectl(*words, "-p", json.dumps(patch))
        run = _run(FOLDER / f"{GPU}.yaml", "GRPC")
        run["spec"]["server"] |= {
            "gpu": {"resource": "nvidia.com/mig-1g.10gb"},
            "resources": {"cpu": "500m", "memory": "1Gi"},
            "readyDeadlineSeconds": 60,
        }
        _create(cluster, namespace, run)
        failed = _finished(cluster, namespace, run["metadata"]["name"])["conditions"]["Failed"]
        assert failed["reason"] == "ServerRefused", failed
        assert "The device GPU was requested" in failed["message"]
