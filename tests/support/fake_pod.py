"""A pod's status at each step of its life, as a kubelet would write it."""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol

from inferometer_api.plan.cluster_objects import EXPORTER, JOB_INDEX_LABEL
from support.api_client import AnswerError, Api, Object, path_of

_ADDRESSES = itertools.count(2)


class Node(Protocol):
    """What a pod needs to know of the node that plays it."""

    api: Api
    node: str
    logs: dict[tuple[str, str], str]
    forgotten: set[tuple[str, str]]


def stamp(age_seconds: float = 0.0) -> str:
    """Return the time so long ago as the API writes it."""
    moment = datetime.fromtimestamp(time.time() - age_seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def fresh_address() -> str:
    """Return an address of 127/8 that no other pod has."""
    number = next(_ADDRESSES)
    return f"127.{1 + number // 62500}.{number // 250 % 250}.{2 + number % 250}"


class Pod:
    """One pod, through whose life a script leads."""

    def __init__(self, kubelet: Node, pod: Object) -> None:
        self._kubelet = kubelet
        self._api = kubelet.api
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self.uid: str = pod["metadata"]["uid"]
        self.object = pod
        self.address = fresh_address()
        self.deleted = threading.Event()
        """Whether it is to be deleted."""
        self.at_end: Callable[[], object] | None = None
        """What its container does on SIGTERM, if more than end."""
        self._status: Object = {"phase": "Pending"}

    @property
    def component(self) -> str:
        """Return what it is for: server or loadgen."""
        labels = self.object["metadata"].get("labels", {})
        return str(labels.get("app.kubernetes.io/component", ""))

    @property
    def run(self) -> str:
        """Return the name of the run that it is for."""
        return str(self.object["metadata"]["labels"]["inferometer.dev/run"])

    @property
    def index(self) -> int:
        """Return which pod of an Indexed Job it is; 0 where there are no others."""
        return int(self.object["metadata"].get("labels", {}).get(JOB_INDEX_LABEL, "0"))

    def bind(self, node: str | None = None) -> None:
        """Bind it to the node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node or self._kubelet.node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": self.name, "uid": self.uid},
            "target": target,
        }
        self._api.ask("POST", path_of("Pod", self.namespace, self.name, "binding"), body)

    def unschedulable(self, message: str) -> None:
        """Report that no node takes it."""
        self.write(
            conditions=[
                _condition("PodScheduled", "False", reason="Unschedulable", message=message)
            ]
        )

    def start(self, *, ready: bool = True) -> None:
        """Let its init containers have ended well and its container run."""
        now = stamp()
        self.write(
            phase="Running",
            podIP=self.address,
            podIPs=[{"ip": self.address}],
            hostIP="127.0.0.1",
            startTime=now,
            conditions=_conditions(ready=ready),
            initContainerStatuses=[
                _container(each, ended(0, "Completed")) for each in self._containers("init")
            ],
            containerStatuses=[
                _container(each, {"running": {"startedAt": now}}, ready=ready)
                for each in self._containers()
            ],
        )

    def waiting(self, reason: str, message: str = "") -> None:
        """Let its container wait, and say why."""
        state = {"waiting": {"reason": reason, "message": message}}
        self.write(
            podIP=self.address,
            conditions=_conditions(ready=False),
            containerStatuses=[_container(each, state) for each in self._containers()],
        )

    def fetch_ended(self, code: int, message: str) -> None:
        """Let its init container have ended so."""
        self.write(
            conditions=_conditions(ready=False),
            initContainerStatuses=[
                _container(each, ended(code, "Error", message)) for each in self._containers("init")
            ],
        )

    def end(
        self, code: int, reason: str = "", message: str = "", *, phase: str | None = None
    ) -> None:
        """Let its container end for good; an exporter goes on."""
        why = reason or ("Completed" if code == 0 else "Error")
        state = ended(code, why, message)
        running = EXPORTER in self._containers() and not self.deleted.is_set()
        over = phase or ("Succeeded" if code == 0 else "Failed")
        self.write(
            phase="Running" if running else over,
            podIP=self.address,
            conditions=_conditions(ready=False),
            containerStatuses=[
                _container(each, {"running": {}} if running and each == EXPORTER else state)
                for each in sorted(self._containers())
            ],
        )

    def end_container(self, name: str, code: int, message: str = "") -> None:
        """Let one container end for good; the others go on."""
        state = ended(code, "Completed" if code == 0 else "Error", message)
        self.write(
            containerStatuses=[
                _container(each, state if each == name else {"running": {}})
                for each in sorted(self._containers())
            ]
        )

    def end_exporter(self, code: int, message: str) -> None:
        """Let its exporter end, after its load generator."""
        state = ended(code, "Completed" if code == 0 else "Error", message)
        others = [each for each in self._status["containerStatuses"] if each["name"] != EXPORTER]
        self.write(
            phase="Succeeded" if code == 0 else "Failed",
            containerStatuses=[_container(EXPORTER, state), *others],
        )

    def evict(self, message: str) -> None:
        """Let the node throw it out."""
        self.write(phase="Failed", reason="Evicted", message=message, containerStatuses=[])

    def write(self, **status: Any) -> None:
        """Write members of its status; a pod that is gone meanwhile is no fault."""
        self._status = {**self._status, **status}
        with contextlib.suppress(AnswerError):
            self._api.merge("Pod", self.namespace, self.name, {"status": self._status}, "status")

    def delete(self) -> None:
        """Delete it as a person does."""
        with contextlib.suppress(AnswerError):
            self._api.delete("Pod", self.namespace, self.name)

    def terminate(self) -> None:
        """End its containers as a kubelet does for one that is deleted, and let it go."""
        if self._status["phase"] == "Running":
            if self.at_end is None:
                self.end(143)
            else:
                self.at_end()
        self.vanish()

    def vanish(self) -> None:
        """Let it be gone at once."""
        with contextlib.suppress(AnswerError):
            self._api.delete("Pod", self.namespace, self.name, gracePeriodSeconds=0)

    def log(self, *lines: str) -> None:
        """Give its container a log."""
        if (self.namespace, self.name) in self._kubelet.forgotten:
            return
        self._kubelet.logs[self.namespace, self.name] = "".join(f"{line}\n" for line in lines)

    def plan(self) -> Object:
        """Return the load generator's plan, as the ConfigMap that it mounts holds it."""
        volumes = self.object["spec"].get("volumes") or []
        name = next(each["configMap"]["name"] for each in volumes if "configMap" in each)
        found = self._api.found("ConfigMap", self.namespace, name)
        if found is None:
            raise AnswerError(HTTPStatus.NOT_FOUND, f"ConfigMap {name}: its run is gone")
        load_plan: Object = json.loads(found["data"]["plan.json"])
        return load_plan

    def _containers(self, kind: str = "") -> list[str]:
        spec = self.object["spec"]
        found = spec.get("initContainers" if kind else "containers") or []
        return [each["name"] for each in found]


def ended(code: int, reason: str, message: str = "") -> Object:
    """Return the state of a container that has ended so."""
    now = stamp()
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": now,
            "finishedAt": now,
        }
    }


def _container(name: str, state: Object, *, ready: bool = False) -> Object:
    return {
        "name": name,
        "image": "registry.test/image:1",
        "imageID": f"registry.test/image@sha256:{'0' * 64}",
        "ready": ready,
        "restartCount": 0,
        "state": state,
        "started": "running" in state,
    }


def _condition(kind: str, status: str, **members: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": stamp(), **members}


def _conditions(*, ready: bool) -> list[Object]:
    status = "True" if ready else "False"
    return [
        _condition("PodScheduled", "True"),
        _condition("Initialized", "True"),
        _condition("ContainersReady", status),
        _condition("Ready", status),
    ]
