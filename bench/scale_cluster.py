"""A real API server with thousands of kept runs, and what an operator does to it.

Nodes are played (`tests/support`), so that the figures are the operator's own.
"""

import atexit
import contextlib
import functools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from bench.processes import ROOT, BenchError

from inferometer_api.plan.cluster_objects import LOADGEN, SERVER
from support.api_client import AnswerError, Api, Object, path_of
from support.cluster.audit import Request, missed_renewals, most_in_a_minute, requests
from support.cluster.control_plane import ControlPlane
from support.fake_kubelet import FakeKubelet, ready_server
from support.fake_pod import Pod
from support.many_runs import keep_runs_with_status, wrong_positions
from support.stage import Stage, a_stage
from support.waiting import wait_until

_DEFINITION = ROOT / "crds" / "benchmarkruns.inferometer.dev.yaml"
_SUITES = ROOT / "crds" / "benchmarksuites.inferometer.dev.yaml"
KEPT = 5_000
_KEPT_BYTES = 6_000
LEASE_SECONDS = 15
RENEW_SECONDS = LEASE_SECONDS / 5
_LABEL = "bench"
_DEADLINE_SECONDS = 120.0


@functools.cache
def shared_stage() -> Stage:
    """Start the API server and fill it; both stay until this process ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="inferometer-scale-")))
    control_plane = ControlPlane(folder / "control-plane")
    stack.callback(control_plane.stop)
    definition = yaml.safe_load(_DEFINITION.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    subresources = version.pop("subresources")
    _define(control_plane, definition, "benchmarkruns")
    suites = yaml.safe_load(_SUITES.read_text(encoding="utf-8"))
    _define(control_plane, suites, "benchmarksuites")
    kubelet = FakeKubelet(control_plane, folder)
    stack.callback(kubelet.close)
    stage = stack.enter_context(a_stage(control_plane, kubelet, folder))
    keep_runs_with_status(stage.api, stage.namespace, KEPT, _KEPT_BYTES)
    version["subresources"] = subresources
    _define(control_plane, definition, "benchmarkruns/status")
    return stage


def _define(control_plane: ControlPlane, definition: Object, resource: str) -> None:
    """Install the definition of runs, and wait until a resource of it is served."""
    control_plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(definition))
    with Api(control_plane) as api:
        wait_for(lambda: _is_served(api, resource), f"The resource {resource}")


def _is_served(api: Api, resource: str) -> bool:
    try:
        found = api.ask("GET", "/apis/inferometer.dev/v1alpha1")["resources"]
        api.all("BenchmarkRun", "default")
    except AnswerError:
        return False
    return any(each["name"] == resource for each in found)


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Wait for a condition; raise BenchError if it does not come true."""
    try:
        wait_until(true, what, deadline_seconds=_DEADLINE_SECONDS)
    except TimeoutError as error:
        raise BenchError(str(error)) from error


def run_names(prefix: str, numbers: Iterable[int]) -> list[str]:
    """Return the names of the runs of a list with these numbers."""
    return [f"{prefix}-{number:04}" for number in numbers]


def run_list(stage: Stage, prefix: str, numbers: Iterable[int]) -> str:
    """Return a list of runs as a file for kubectl."""
    runs = [stage.a_run(name) for name in run_names(prefix, numbers)]
    for run in runs:
        run["metadata"] |= {"namespace": stage.namespace, "labels": {_LABEL: prefix}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": runs})


def delete_all(stage: Stage, prefix: str) -> None:
    """Delete the runs of a list without an operator."""
    path = path_of("BenchmarkRun", stage.namespace)
    stage.api.ask("DELETE", path, query={"labelSelector": f"{_LABEL}={prefix}"})
    children = {"labelSelector": "app.kubernetes.io/managed-by=inferometer-operator"}
    for kind in ("Job", "ConfigMap", "Pod"):
        query = {**children, "propagationPolicy": "Background"}
        stage.api.ask("DELETE", path_of(kind, stage.namespace), query=query)


class FirstLoads:
    """A script for load pods: so many runs measure at once; the next waits until they may."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._left = 0
        self._waiting: list[Pod] = []
        self._lock = threading.Lock()
        stage.play(SERVER, ready_server)
        stage.play(LOADGEN, self)

    def __call__(self, pod: Pod) -> None:
        """Play one load pod."""
        with self._lock:
            goes = self._left > 0
            if goes:
                self._left -= 1
            else:
                self._waiting.append(pod)
        if goes:
            self._stage.loads.measure(pod)

    def release(self, count: int) -> None:
        """Let so many runs measure."""
        with self._lock:
            now = self._waiting[:count]
            del self._waiting[:count]
            self._left = count - len(now)
        for pod in now:
            threading.Thread(target=self._stage.loads.measure, args=(pod,), daemon=True).start()


@dataclass
class WatchedRuns:
    """The runs of some lists as a watch shows them, and when each was first seen and answered."""

    api: Api
    namespace: str
    prefixes: tuple[str, ...]
    runs: dict[str, Object] = field(default_factory=dict)
    created: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        """Watch from now on, in a thread."""
        threading.Thread(target=self._watch, daemon=True).start()

    def of(self, prefix: str) -> list[Object]:
        """Return the runs of a list."""
        return [run for name, run in list(self.runs.items()) if name.startswith(f"{prefix}-")]

    def finished(self) -> int:
        """Return how many are finished."""
        return sum(_is_finished(run) for run in list(self.runs.values()))

    def waiting(self) -> set[str]:
        """Return the names of those that have not begun."""
        return {
            name
            for name, run in list(self.runs.items())
            if not (run.get("status") or {}).get("startTime")
        }

    def positions_are_right(self) -> bool:
        """Return whether each waiting run's status has its position."""
        return not wrong_positions(
            [run for run in list(self.runs.values()) if not _is_finished(run)]
        )

    def _watch(self) -> None:
        while True:
            # A refusal has no type: the API server may still prepare its cache.
            with contextlib.suppress(KeyError, OSError, AnswerError):
                self._take_in()
            time.sleep(0.1)

    def _take_in(self) -> None:
        labels = f"{_LABEL} in ({','.join(self.prefixes)})"
        # What went while nothing was watched.
        found = self.api.all("BenchmarkRun", self.namespace, labels)
        for name in self.runs.keys() - {run["metadata"]["name"] for run in found}:
            self.runs.pop(name, None)
        for kind, run in self.api.watch("BenchmarkRun", self.namespace, labels):
            name = run["metadata"]["name"]
            if kind == "DELETED":
                self.runs.pop(name, None)
                continue
            self.runs[name] = run
            now = time.monotonic()
            self.created.setdefault(name, now)
            if (run.get("status") or {}).get("conditions"):
                self.answered.setdefault(name, now)


def _is_finished(run: Object) -> bool:
    conditions = (run.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Finished" and each["status"] == "True" for each in conditions)


@dataclass(frozen=True, slots=True)
class Requests:
    """What an operator requested since a place in the audit log."""

    found: tuple[Request, ...]

    @classmethod
    def since(cls, stage: Stage, offset_bytes: int) -> "Requests":
        """Read the audit log from a place on."""
        log = stage.control_plane.audit_log
        return cls(tuple(requests(log, stage.user, offset_bytes)))

    def missed_renewals(self) -> int:
        """Count renewals that failed, or that came an interval late."""
        return missed_renewals(self.found, RENEW_SECONDS)

    def most_in_a_minute(self, names: set[str], *, writes: bool) -> int:
        """Return the most reads or writes of one of these runs within any minute."""
        return most_in_a_minute(self.found, names, writes=writes)

    def of_work(self, waiting: set[str]) -> Counter[str]:
        """Count reads and writes, but for the Lease, watches and those of waiting runs."""
        return Counter(
            "writes" if each.writes else "reads"
            for each in self.found
            if each.resource != "leases" and each.verb != "watch" and each.name not in waiting
        )


def audit_bytes(stage: Stage) -> int:
    """Return where the audit log ends now."""
    return stage.control_plane.audit_log.stat().st_size


def peak_bytes(process_id: int) -> int:
    """Return the most resident memory that a process has had."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def settings() -> dict[str, Any]:
    """Return the operator's settings: one run at a time, so that all others wait."""
    return {"maxConcurrentRuns": 1}
