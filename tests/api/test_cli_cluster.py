"""`kubectl inferometer` works with a real API server.

No operator runs: status, result and events are written by the test.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from inferometer_api.results.result import ResultDocument
from support.api_client import Api
from support.cluster.control_plane import ControlPlane
from support.cluster_runs import (
    a_complete_status,
    a_condition,
    put_event,
    put_result,
    put_run,
    set_status,
)
from support.results import a_result, a_valid_result
from support.waiting import DEADLINE_SECONDS, killed_at_deadline

ROOT = Path(__file__).parents[2]
PLUGIN = Path(sys.executable).with_name("kubectl-inferometer")


@dataclass(frozen=True, slots=True)
class Plugin:
    """Runs the plugin against the API server of the tests."""

    kubeconfig: Path
    namespace: str
    folder: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [PLUGIN, *words, "-n", self.namespace, "--kubeconfig", str(self.kubeconfig)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error of a command."""
        process = self.start(*words)
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        return process.returncode, stdout, stderr


@pytest.fixture
def defined(api_server: ControlPlane, api: Api) -> ControlPlane:
    """Return an API server that knows BenchmarkRuns."""
    return api_server


@pytest.fixture
def plugin(defined: ControlPlane, namespace: str, tmp_path: Path) -> Plugin:
    """Return the plugin in a namespace of the test's own."""
    return Plugin(defined.kubeconfig, namespace, tmp_path)


def _text(document: ResultDocument) -> str:
    return document.model_dump_json(indent=2, exclude_none=True) + "\n"


def _complete(cluster: ControlPlane, namespace: str, document: ResultDocument) -> list[str]:
    """Leave a run as an operator does that has kept its result; return the names of the parts."""
    run = put_run(cluster, namespace, document, None)
    reference = put_result(cluster, namespace, run, _text(document).encode(), part_bytes=2000)
    assert len(reference["configMaps"]) > 1
    status = a_complete_status(document) | {"result": reference}
    set_status(cluster, namespace, document.run.name, status)
    put_event(cluster, namespace, run, "Measured", "All scenarios are measured.")
    return list(reference["configMaps"])


def test_a_finished_run_is_shown_taken_out_and_drawn(
    defined: ControlPlane, plugin: Plugin, namespace: str
) -> None:
    """Status, result and report of a run in the cluster are those of a local one."""
    document = a_result()
    _complete(defined, namespace, document)
    code, stdout, stderr = plugin("status", "resnet50-cpu")
    assert code == 3
    assert "All scenarios are measured." in stdout
    assert "INVALID: 1 of 3 scenarios is invalid." in stdout
    assert f"kubectl inferometer result resnet50-cpu -n {namespace}" in stderr
    assert plugin("result", "resnet50-cpu")[:2] == (0, _text(document))
    assert plugin("result", "resnet50-cpu", "-o", "out/result.json")[0] == 0
    assert (plugin.folder / "out" / "result.json").read_text() == _text(document)
    code, table, _ = plugin("report", "resnet50-cpu")
    assert code == 0
    page = plugin.folder / "results" / "resnet50-cpu-20260312T140321Z" / "report.html"
    local = subprocess.run(
        [PLUGIN, "report", "out/result.json", "-o", "local.html"],
        cwd=plugin.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert table == local.stdout
    assert page.read_text() == (plugin.folder / "local.html").read_text()


def test_a_result_with_a_gap_is_reported(
    defined: ControlPlane, plugin: Plugin, namespace: str
) -> None:
    """A part that was deleted is named, nothing is written, and the status still shows."""
    part = _complete(defined, namespace, a_valid_result())[1]
    defined.kubectl("delete", "configmap", part, "-n", namespace)
    code, stdout, stderr = plugin("result", "resnet50-cpu", "-o", "result.json")
    assert (code, stdout) == (1, "")
    assert f"ConfigMap {part}, which holds a part of it, does not exist" in stderr
    assert not (plugin.folder / "result.json").exists()
    assert plugin("status", "resnet50-cpu")[0] == 0


def test_a_run_is_followed_to_its_end(
    defined: ControlPlane, plugin: Plugin, namespace: str
) -> None:
    """`status -w` prints a line at each change, and ends with the run, by its verdict."""
    document = a_valid_result()
    put_run(
        defined,
        namespace,
        document,
        {
            "phase": "Queued",
            "conditions": [
                a_condition("Accepted", "True", "Queued", "1 run is ahead."),
            ],
        },
    )
    process = plugin.start("status", "resnet50-cpu", "--watch")
    assert process.stderr is not None
    with killed_at_deadline(process, "the place in the queue"):
        assert process.stderr.readline() == "queued: 1 run is ahead.\n"
    shown = {"scenario": "latency", "qps": "47.3", "p99": "24.2 ms"}
    set_status(
        defined,
        namespace,
        "resnet50-cpu",
        {"phase": "Measuring", "progressPercent": 40, "display": shown},
    )
    with killed_at_deadline(process, "the progress"):
        progress = process.stderr.readline()
    assert progress == "measuring 40 %: latency  47.3 queries/s  p99 24.2 ms\n"
    set_status(defined, namespace, "resnet50-cpu", a_complete_status(document))
    stdout, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert "VALID: The scenario is valid." in stdout


def test_a_followed_run_that_is_deleted_ends_the_watch(
    defined: ControlPlane, plugin: Plugin, namespace: str
) -> None:
    """`status -w` reports that the run was deleted."""
    put_run(defined, namespace, a_result(), {"phase": "Starting"})
    process = plugin.start("status", "resnet50-cpu", "-w")
    assert process.stderr is not None
    with killed_at_deadline(process, "the phase"):
        assert process.stderr.readline() == "starting: The run is being prepared.\n"
    defined.kubectl("delete", "benchmarkrun", "resnet50-cpu", "-n", namespace)
    _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert "was deleted while this command followed it" in stderr


def test_a_cancel_reaches_the_cluster(
    defined: ControlPlane, plugin: Plugin, namespace: str
) -> None:
    """`cancel` sets spec.cancel once, says what happens, and leaves alone what has ended."""
    put_run(defined, namespace, a_result(), {"phase": "Measuring"})
    assert "they are kept" in plugin("cancel", "resnet50-cpu")[1]
    run = defined.get("benchmarkrun", "resnet50-cpu", "-n", namespace)
    assert run["spec"]["cancel"] is True
    assert "was cancelled before" in plugin("cancel", "resnet50-cpu")[1]
    code, _, stderr = plugin("result", "resnet50-cpu")
    assert code == 2
    assert "has no result yet: it is measuring" in stderr
    waiting = plugin("cancel", "resnet50-cpu", "--wait", "--timeout", "1")
    assert waiting[0] == 1
    assert "was not finished after 1 s" in waiting[2]
    set_status(defined, namespace, "resnet50-cpu", a_complete_status(a_result()))
    code, stdout, _ = plugin("cancel", "resnet50-cpu", "--wait")
    assert code == 0
    assert "has ended already; nothing was changed" in stdout


def test_a_missing_run_is_reported_with_the_existing_ones(
    defined: ControlPlane, plugin: Plugin, namespace: str
) -> None:
    """A misspelt name, an empty namespace and an unreachable server each have their sentence."""
    assert (
        f"BenchmarkRun x does not exist in namespace {namespace}, nor does any other"
        in plugin("status", "x")[2]
    )
    put_run(defined, namespace, a_result(), None)
    code, _, stderr = plugin("status", "resnet-cpu")
    assert code == 2
    assert "Did you mean resnet50-cpu?" in stderr
    unfinished = plugin("status", "resnet50-cpu")
    assert unfinished[0] == 0
    assert "NOT ACCEPTED: No operator has accepted the run yet." in unfinished[1]
    away = plugin.folder / "away"
    away.write_text(defined.kubeconfig.read_text().replace(defined.url, "https://127.0.0.1:1"))
    code, _, stderr = Plugin(away, namespace, plugin.folder)("status", "resnet50-cpu")
    assert code == 1
    assert "Cannot reach the API server https://127.0.0.1:1" in stderr
    assert "Connection refused" in stderr


@pytest.fixture
def weak(defined: ControlPlane, plugin: Plugin, namespace: str) -> Plugin:
    """Return the plugin of a user who may do nothing."""
    defined.kubectl("create", "serviceaccount", "weak", "-n", namespace)
    token = defined.kubectl("create", "token", "weak", "-n", namespace).strip()
    kubeconfig = defined.write_kubeconfig(plugin.folder / "weak", token)
    return Plugin(kubeconfig, namespace, plugin.folder)


def test_missing_rights_are_listed(weak: Plugin) -> None:
    """Commands end 2 with the API server's words; a preflight says what it could not see."""
    code, _, stderr = weak("status", "resnet50-cpu")
    assert code == 2
    assert 'cannot get resource "benchmarkruns"' in stderr
    code, stdout, _ = weak("preflight")
    assert code == 2
    assert "blocked  rights" in stdout
    assert "unknown  nodes         whether a node has room for the run: you may not" in stdout
    assert "unknown  operator" in stdout


def test_a_preflight_lists_what_would_stop_a_run(
    defined: ControlPlane, plugin: Plugin, namespace: str, request: pytest.FixtureRequest
) -> None:
    """An operator without pods, a tight quota, a name that is taken, a file: each is reported."""
    request.addfinalizer(lambda: defined.kubectl("delete", "node", f"{namespace}-node"))
    _install_traces(defined, namespace)
    file = str(ROOT / "examples" / "01-resnet50-cpu.yaml")
    code, stdout, _ = plugin("preflight", "-f", file)
    # No kubelet runs the operator's pod, and nothing else is wrong.
    assert code == 2
    assert f"1 problem blocks {file} in namespace {namespace}; " in stdout, stdout
    assert f"no pod of {namespace}/operator is available" in stdout
    assert "the API server accepts the run" in stdout
    assert not defined.get("benchmarkruns", "-n", namespace)["items"]
    defined.kubectl("create", "quota", "tight", "--hard=pods=1", "-n", namespace)
    defined.kubectl("create", "-n", namespace, "-f", file)
    code, stdout, _ = plugin("preflight", "-f", file)
    assert code == 2
    assert "pods: the run needs 2, but the whole quota is 1" in stdout
    assert '"resnet50-cpu" already exists; delete that run, or give' in stdout
    assert "3 problems block " in stdout
    code, stdout, _ = plugin("preflight", "-f", str(ROOT / "examples" / "04-own-model.yaml"))
    assert code == 2
    assert "blocked  spec          spec.model.uri: pods cannot reach file:" in stdout
    _, stdout, _ = plugin("preflight", "-f", str(ROOT / "examples" / "14-suite.yaml"))
    assert "the API server accepts the suite (dry run)" in stdout
    assert "4 cells, 8 runs; each cell is a valid run" in stdout
    assert stdout.count("pods: the run needs 2, but the whole quota is 1") == 1


def _install_traces(cluster: ControlPlane, namespace: str) -> None:
    """Leave what a chart, an operator and a kubelet would have left."""
    labels = {
        "app.kubernetes.io/part-of": "inferometer",
        "app.kubernetes.io/component": "operator",
        "app.kubernetes.io/instance": "inferometer",
    }
    meta = {"namespace": namespace, "labels": labels}
    settings = f"namespace: {namespace}\nimages: {{serving: s, servingGpu: g, loadgen: l}}\n"
    pod = {"containers": [{"name": "operator", "image": "o"}]}
    node = {"metadata": {"name": f"{namespace}-node"}}
    objects = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "operator-settings", **meta},
            "data": {"settings.yaml": settings},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "operator", **meta},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {"apiVersion": "v1", "kind": "Node", **node},
    ]
    for each in objects:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(each))
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    patch = json.dumps({"status": {"capacity": capacity, "allocatable": capacity}})
    words = ("patch", "node", f"{namespace}-node", "--subresource=status", "--type=merge")
    cluster.kubectl(*words, "-p", patch)
