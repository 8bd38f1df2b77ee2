"""The gate's cluster: chart, the result of an example, one fault, one operator restart.

`make verify` has every example and fault (GROUP=nodes, GROUP=operator).
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from inferometer_api.plan.cluster_objects import LOADGEN, load_name
from inferometer_api.results.result import ResultDocument
from support.chart import Json
from support.cluster.cluster import Cluster
from support.node_runs import (
    SLOW_SECONDS,
    condition,
    make_run,
    status,
    wait_for,
    wait_for_reason,
)
from support.operator_installed import operator_installed
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "01-resnet50-cpu.yaml"
PLUGIN = str(Path(sys.executable).with_name("kubectl-inferometer"))
SHORT = {"warmUpSeconds": 0, "minDurationSeconds": 2, "minQueries": 1}
LEADS_SECONDS = 120.0


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[str]:
    """Install the operator by its chart in a namespace that admits only restricted pods."""
    values = {"maxConcurrentRuns": 4, "load": {"resources": {"cpu": "50m", "memory": "256Mi"}}}
    with operator_installed(cluster, "smoke", values) as namespace:
        yield namespace


def test_an_example_is_measured_and_its_result_fetched(
    cluster: Cluster, installed: str, tmp_path: Path
) -> None:
    """The first example ends Complete, and the plugin fetches the result that it measured."""
    run = yaml.safe_load(EXAMPLE.read_text())
    run["spec"]["validity"] = SHORT
    run["spec"].setdefault("load", {})["protocol"] = "HTTP"
    cluster.kubectl("create", "--namespace", installed, "-f", "-", stdin=json.dumps(run))
    name = run["metadata"]["name"]
    wait_for(cluster, installed, name, "Complete")
    wait_for(cluster, installed, name, "Finished")
    measured = status(cluster, installed, name)["scenarios"]
    assert [each["name"] for each in measured] == [
        each["name"] for each in run["spec"]["scenarios"]
    ]
    file = tmp_path / "result.json"
    words = ("result", name, "-o", str(file), "--namespace", installed)
    done = subprocess.run(
        [PLUGIN, *words, "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = ResultDocument.model_validate_json(file.read_bytes())
    counted = [sum(step.counts.queries for step in each.steps) for each in result.scenarios]
    # Of several steps the status shows one in full, and the sum of all.
    assert counted == [each.get("totalQueries", each["queries"]) for each in measured]
    assert all(step.counts.succeeded > 0 for each in result.scenarios for step in each.steps)
    assert result.environment is not None
    (replica,) = result.environment.server.replicas
    # The operator's own pod is there as well.
    assert replica.cluster_node is not None
    assert (replica.cluster_node.other_pods or 0) >= 1


def test_a_run_that_fits_no_node_waits_with_its_reason(cluster: Cluster, installed: str) -> None:
    """A server that requests 640 CPUs is queued, in the scheduler's own words, until cancelled."""
    server = {"resources": {"cpu": "640", "memory": "512Mi"}}
    make_run(cluster, installed, "too-large", server=server)
    wait_for_reason(cluster, installed, "too-large", "Accepted", "WaitingForNodes")
    accepted = condition(cluster, installed, "too-large", "Accepted")
    assert "Insufficient cpu" in accepted["message"]
    cancel = json.dumps({"spec": {"cancel": True}})
    words = ("patch", "benchmarkrun", "too-large", "--type=merge", "--patch", cancel)
    cluster.kubectl(*words, "--namespace", installed)
    wait_for(cluster, installed, "too-large", "Finished")


def test_a_run_goes_on_when_its_operator_restarts(cluster: Cluster, installed: str) -> None:
    """If the operator's pod is deleted under load, the next one completes the same run."""
    make_run(
        cluster,
        installed,
        "led-on",
        validity={"warmUpSeconds": 0, "minDurationSeconds": 20, "minQueries": 1},
        retention={"cleanup": "Never"},
    )
    # A watch sees the condition, however briefly a busy machine shows it.
    words = ("bmr/led-on", "--for=condition=Measuring", f"--timeout={SLOW_SECONDS:.0f}s")
    cluster.kubectl("wait", *words, "--namespace", installed)
    before = begun(cluster, installed, "led-on")
    old = set(pods(cluster, installed, "operator"))
    cluster.kubectl("delete", "pod", *old, "--namespace", installed, "--wait=false")
    wait_until(
        lambda: (
            bool(pods(cluster, installed, "operator"))
            and not old & set(pods(cluster, installed, "operator"))
        ),
        "A new operator in place of the deleted one",
        deadline_seconds=LEADS_SECONDS,
        poll_seconds=0.5,
    )
    wait_for(cluster, installed, "led-on", "Complete")
    wait_for(cluster, installed, "led-on", "Finished")
    assert begun(cluster, installed, "led-on") == before
    (only,) = [
        name for name in pods(cluster, installed, LOADGEN) if name.startswith(load_name("led-on"))
    ]
    assert only


def begun(cluster: Cluster, namespace: str, run: str) -> tuple[str, str]:
    """Return when a run began, and the UID of its load Job."""
    job = cluster.get("job", load_name(run), "--namespace", namespace)
    return status(cluster, namespace, run)["startTime"], job["metadata"]["uid"]


def pods(cluster: Cluster, namespace: str, component: str) -> dict[str, Json]:
    """Return the pods of a component by name."""
    selector = f"app.kubernetes.io/component={component}"
    found = cluster.get("pods", "--namespace", namespace, "--selector", selector)["items"]
    return {each["metadata"]["name"]: each for each in found}
