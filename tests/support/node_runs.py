"""Creates runs on real nodes, waits for their conditions, and reads their results."""

import json
import subprocess
import sys
from pathlib import Path

from inferometer_api.results.result import ResultDocument
from support.chart import Json
from support.cluster.cluster import Cluster
from support.waiting import wait_until

SLOW_SECONDS = 300.0
"""Far above what any run here takes."""
_PLUGIN = str(Path(sys.executable).with_name("kubectl-inferometer"))


def make_run(
    cluster: Cluster,
    namespace: str,
    run: str,
    labels: dict[str, str] | None = None,
    **spec: object,
) -> None:
    """Make a run of a small model with short minimums."""
    body = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": run, "labels": labels or {}},
        "spec": {
            "model": {"uri": "zoo://classification/mobilenet_v2"},
            "scenarios": [{"name": "one", "singleStream": {}}],
            "validity": {"warmUpSeconds": 0, "minDurationSeconds": 1, "minQueries": 10},
            "server": {"resources": {"cpu": "250m", "memory": "512Mi"}},
        }
        | spec,
    }
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(body))


def status(cluster: Cluster, namespace: str, run: str) -> Json:
    """Return the run's status, empty if it has none."""
    run_status: Json = cluster.get("benchmarkrun", run, "--namespace", namespace).get("status", {})
    return run_status


def condition(cluster: Cluster, namespace: str, run: str, kind: str) -> Json:
    """Return a condition of the run, empty if it has none of that type."""
    conditions = status(cluster, namespace, run).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def holds(cluster: Cluster, namespace: str, run: str, kind: str) -> bool:
    """Return whether this condition of the run is True."""
    return bool(condition(cluster, namespace, run, kind).get("status") == "True")


def wait_for_reason(cluster: Cluster, namespace: str, run: str, kind: str, reason: str) -> None:
    """Wait until this condition of the run has a reason."""
    wait_until(
        lambda: condition(cluster, namespace, run, kind).get("reason") == reason,
        f"{kind} of {run} with {reason}",
        deadline_seconds=SLOW_SECONDS,
        poll_seconds=0.5,
    )


def wait_for(cluster: Cluster, namespace: str, run: str, kind: str) -> None:
    """Wait until this condition of the run is True; AssertionError if the run ends without it."""
    wait_until(
        lambda: holds(cluster, namespace, run, kind) or holds(cluster, namespace, run, "Finished"),
        f"{kind} of {run}",
        deadline_seconds=SLOW_SECONDS,
        poll_seconds=0.5,
    )
    run_status = status(cluster, namespace, run)
    assert holds(cluster, namespace, run, kind), json.dumps(run_status, indent=1)


def make_config_map(cluster: Cluster, namespace: str, name: str, files: Path) -> None:
    """Make a ConfigMap of a file or folder that runs may name."""
    here = ("--namespace", namespace)
    cluster.kubectl("create", "configmap", name, f"--from-file={files}", *here)
    cluster.kubectl("label", "configmap", name, "inferometer.dev/allow-use=true", *here)


def run_result(cluster: Cluster, namespace: str, run: str, folder: Path) -> ResultDocument:
    """Return the result of a run."""
    file = folder / f"{run}.json"
    where = ("--namespace", namespace, "--kubeconfig", str(cluster.kubeconfig))
    done = subprocess.run(
        [_PLUGIN, "result", run, "-o", str(file), *where],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ResultDocument.model_validate_json(file.read_bytes())
