"""Runs on a real cluster of one node, applied as a user applies them.

The cluster is the tests' own (`make cluster-up` explains it), started once for all cases.
"""

import atexit
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import yaml
from bench.case import PeerMissingError
from bench.processes import ROOT, BenchError

from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from support.cluster.availability import why_no_nodes
from support.cluster.binaries import missing
from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.kserve_process import start_kserve
from support.operator_installed import operator_installed

_PLUGIN = str(Path(sys.executable).with_name("kubectl-inferometer"))
_FINISHED = "--timeout=600s"
_OPERATOR = "inferometer_operator"


def require_nodes() -> None:
    """Raise PeerMissingError where this machine cannot run nodes."""
    why_not = why_no_nodes()
    if why_not is not None:
        raise PeerMissingError(why_not)


def require_kserve() -> None:
    """Raise PeerMissingError where no cluster with KServe can be started."""
    require_nodes()
    if missing(["kserve"]):
        raise PeerMissingError(
            "KServe's controller is not built: `PYTHONPATH=tests:. .venv/bin/python -m "
            "support.cluster build verify` builds it with Go."
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """A run that is finished."""

    created_at: datetime
    """Before `kubectl create` was started."""
    result: ResultDocument


@dataclass(frozen=True, slots=True)
class Bench:
    """A cluster with an operator that serves a namespace."""

    cluster: Cluster
    namespace: str

    def measure(self, run: dict[str, Any]) -> Applied:
        """Create a run, wait until it is finished, take out its result, and delete it."""
        name, here = run["metadata"]["name"], ("--namespace", self.namespace)
        text = json.dumps(run)
        created_at = datetime.now(tz=UTC)
        self.cluster.kubectl("create", *here, "-f", "-", stdin=text)
        self._wait(name)
        done = subprocess.run(
            [_PLUGIN, "result", name, *here, "--kubeconfig", str(self.cluster.kubeconfig)],
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(f"The run {name} left no result: {done.stderr.decode()}")
        self.cluster.kubectl("delete", "benchmarkrun", name, *here)
        return Applied(created_at, read_result(done.stdout, source="the result").document)

    def operator_memory_bytes(self) -> int:
        """Return the resident memory of the operator's process."""
        pods = self.cluster.get("pods", "--namespace", self.namespace)["items"]
        uids = [pod["metadata"]["uid"] for pod in pods if "operator" in pod["metadata"]["name"]]
        found = [
            process.memory_info().rss
            for process in psutil.process_iter(["cmdline"])
            if _OPERATOR in (process.info["cmdline"] or ())
            and any(uid in _cgroup(process.pid) for uid in uids)
        ]
        if not found:
            raise BenchError("The operator's process was not found on this machine.")
        return int(max(found))

    def _wait(self, name: str) -> None:
        # One watch: a poll would take CPU time from what is measured.
        words = ("wait", f"benchmarkrun/{name}", "--namespace", self.namespace)
        try:
            self.cluster.kubectl(*words, "--for=condition=Finished", _FINISHED)
        except RuntimeError as error:
            raise BenchError(f"The run {name} did not finish: {error}") from error


def example(name: str) -> dict[str, Any]:
    """Return the run of an example."""
    run: dict[str, Any] = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())
    return run


def locally(name: str, folder: Path) -> ResultDocument:
    """Return what `inferometer run` leaves of an example."""
    command = str(Path(sys.executable).with_name("inferometer"))
    words = (command, "run", f"examples/{name}.yaml", "--output", str(folder))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 3}:
        raise BenchError(f"inferometer run {name} failed: {done.stderr}")
    return read_result((folder / "result.json").read_bytes(), source=str(folder)).document


@functools.cache
def shared_bench() -> Bench:
    """Start the cluster and the operator, which stay until this process ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    cluster = Cluster(f"bench-{os.getpid()}", images=images())
    stack.callback(cluster.stop)
    namespace = stack.enter_context(operator_installed(cluster, "bench"))
    return Bench(cluster, namespace)


@contextmanager
def kserve_bench() -> Iterator[Bench]:
    """Run a cluster with KServe, and an operator whose runs may use it."""
    values = {
        "kserve": {"enabled": True},
        "load": {"resources": {"cpu": "50m", "memory": "1536Mi"}},
    }
    cluster = Cluster(f"bench-kserve-{os.getpid()}", images=images())
    with ExitStack() as stack:
        stack.callback(cluster.stop)
        folder = Path(stack.enter_context(TemporaryDirectory()))
        start_kserve(cluster, folder, cluster.start_in_control_plane)
        yield Bench(cluster, stack.enter_context(operator_installed(cluster, "bench", values)))


def _cgroup(process_id: int) -> str:
    try:
        return Path(f"/proc/{process_id}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return ""  # it has ended meanwhile
