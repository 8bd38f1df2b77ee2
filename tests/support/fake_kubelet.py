"""Who plays the nodes where there are none? A kubelet and scheduler that only write pod status.

A node of it is bound, runs and ends pods as a test's script says; logs are served over HTTPS, as
the API server asks a real kubelet for them. Load pods answer at addresses of their own in 127/8.
"""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.api_client import AnswerError, Api, Object, path_of
from support.cluster.control_plane import ControlPlane
from support.cluster.processes import wait_until
from support.loopback_tls import server_context

_ADDRESSES = itertools.count(2)
_HEARTBEAT_SECONDS = 3.0
DEADLINE_SECONDS = 30.0


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

    def __init__(self, kubelet: "FakeKubelet", pod: Object) -> None:
        self._kubelet = kubelet
        self._api = kubelet.api
        self.namespace: str = pod["metadata"]["namespace"]
        self.name: str = pod["metadata"]["name"]
        self.uid: str = pod["metadata"]["uid"]
        self.object = pod
        self.address = fresh_address()
        self.deleted = threading.Event()
        """Whether somebody wants it gone."""
        self.at_end: Callable[[], object] | None = None
        """What its container does when it is told to end, where that is more than to end."""
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
        """Tell that no node takes it."""
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

    def waiting(
        self, reason: str, message: str = "", *, restarts: int = 0, last: Object | None = None
    ) -> None:
        """Let its container wait, and say why; `last` is how it ended before."""
        state = {"waiting": {"reason": reason, "message": message}}
        extra = {"restartCount": restarts, "lastState": last or {}}
        self.write(
            podIP=self.address,
            conditions=_conditions(ready=False),
            containerStatuses=[{**_container(each, state), **extra} for each in self._containers()],
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
        """Let its container end for good."""
        why = reason or ("Completed" if code == 0 else "Error")
        self.write(
            phase=phase or ("Succeeded" if code == 0 else "Failed"),
            podIP=self.address,
            conditions=_conditions(ready=False),
            containerStatuses=[
                _container(each, ended(code, why, message)) for each in self._containers()
            ],
        )

    def restarted(self, code: int, reason: str = "Error", message: str = "") -> None:
        """Let its container run again after it has ended so."""
        now = stamp()
        again = {"restartCount": 1, "lastState": ended(code, reason, message)}
        self.write(
            phase="Running",
            podIP=self.address,
            conditions=_conditions(ready=True),
            containerStatuses=[
                {**_container(each, {"running": {"startedAt": now}}, ready=True), **again}
                for each in self._containers()
            ],
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
        assert found is not None, name
        told: Object = json.loads(found["data"]["plan.json"])
        return told

    def _containers(self, kind: str = "") -> list[str]:
        spec = self.object["spec"]
        found = spec.get("initContainers" if kind else "containers") or []
        return [each["name"] for each in found]


Script = Callable[[Pod], None]


def ready_server(pod: Pod) -> None:
    """Play a server that is ready at once."""
    pod.bind()
    pod.start()


def do_nothing(_: Pod) -> None:
    """Play a scheduler that sleeps."""


class FakeKubelet:
    """A node for the pods of some namespaces, each with a script a component."""

    def __init__(self, control_plane: ControlPlane, folder: Path, node: str = "fake-node") -> None:
        self.api = Api(control_plane)
        self.node = node
        self.logs: dict[tuple[str, str], str] = {}
        self.pods: dict[str, Pod] = {}
        """By UID, those that are gone too."""
        self._scripts: dict[tuple[str, str], Script] = {}
        self.forgotten: set[tuple[str, str]] = set()
        self._ended = threading.Event()
        self.silent = threading.Event()
        """Whether the node has fallen silent."""
        self._server = _log_server(self.logs, folder)
        self._make_node()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._beat, self._follow)
        ]
        for thread in self._threads:
            thread.start()

    def play(self, namespace: str, component: str, script: Script) -> None:
        """Lead each pod of a component in this namespace by a script; None before: nothing."""
        self._scripts[namespace, component] = script

    def pod(self, namespace: str, component: str, count: int = 1) -> Pod:
        """Wait for the pods of a component, and return the last."""
        found: list[Pod] = []

        def there() -> bool:
            found[:] = self.all(namespace, component)
            return len(found) >= count

        wait_until(there, f"{count} {component} pods in {namespace}", deadline_seconds=30)
        return found[count - 1]

    def all(self, namespace: str, component: str) -> list[Pod]:
        """Return every pod that was ever made of a component."""
        return [
            pod
            for pod in list(self.pods.values())
            if (pod.namespace, pod.component) == (namespace, component)
        ]

    def forget_logs(self, namespace: str, name: str) -> None:
        """Have no log of a pod, now and later."""
        self.forgotten.add((namespace, name))

    def close(self) -> None:
        """End all threads."""
        self._ended.set()
        self.api.close()
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
        self._server.shutdown()
        self._server.server_close()

    def _make_node(self) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}}
        self.api.create("Node", None, body)
        self.api.merge("Node", None, self.node, {"status": self._node_status()}, "status")

    def _node_status(self) -> Object:
        now = stamp()
        room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        return {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.server_address[1]}},
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
        }

    def _beat(self) -> None:
        while not self._ended.wait(_HEARTBEAT_SECONDS):
            if not self.silent.is_set():
                with contextlib.suppress(AnswerError, OSError):
                    status = self._node_status()
                    self.api.merge("Node", None, self.node, {"status": status}, "status")

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for kind, pod in self.api.watch("Pod", None):
                    self._happened(kind, pod)
            except OSError:
                pass
            self._ended.wait(0.2)

    def _happened(self, kind: str, told: Object) -> None:
        if kind == "ERROR":
            return
        uid = told["metadata"]["uid"]
        pod = self.pods.get(uid)
        if pod is None and kind != "DELETED":
            pod = self.pods[uid] = Pod(self, told)
            script = self._scripts.get((pod.namespace, pod.component))
            if script is not None:
                threading.Thread(target=self._led, args=(script, pod), daemon=True).start()
        if pod is not None and (kind == "DELETED" or told["metadata"].get("deletionTimestamp")):
            first, gone = not pod.deleted.is_set(), kind == "DELETED"
            pod.deleted.set()
            if first and not gone and not self.silent.is_set():
                threading.Thread(target=pod.terminate, daemon=True).start()

    def _led(self, script: Script, pod: Pod) -> None:
        try:
            script(pod)
        except AnswerError as error:
            # Gone before its script was over.
            if error.code not in {404, 409}:
                raise


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
    told = "True" if ready else "False"
    return [
        _condition("PodScheduled", "True"),
        _condition("Initialized", "True"),
        _condition("ContainersReady", told),
        _condition("Ready", told),
    ]


def _log_server(logs: dict[tuple[str, str], str], folder: Path) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            words = self.path.partition("?")[0].split("/")
            text = logs.get((words[2], words[3])) if words[1] == "containerLogs" else None
            body = (text or "").encode()
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = server_context(folder).wrap_socket(server.socket, server_side=True)
    return server
