"""A kubelet and scheduler that only write pod status, where there are no nodes.

A node of it is bound, runs and ends pods as a test's script says; logs are served over HTTPS, as
the API server gets them from a real kubelet. Load pods answer at addresses of their own in 127/8.
"""

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override

from support.api_client import AnswerError, Api, Object
from support.cluster.control_plane import ControlPlane
from support.fake_pod import Pod, stamp
from support.loopback_tls import server_context
from support.waiting import join_thread, wait_until

_HEARTBEAT_SECONDS = 3.0
DEADLINE_SECONDS = 60.0


Script = Callable[[Pod], None]


def ready_server(pod: Pod) -> None:
    """Play a server that is ready at once."""
    pod.bind()
    pod.start()


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
        self.pool: list[str] = []
        """Other nodes to keep ready, on which no pod starts."""
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

        wait_until(
            there, f"{count} {component} pods in {namespace}", deadline_seconds=DEADLINE_SECONDS
        )
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
            join_thread(thread, f"the end of the thread {thread.name}")
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
                status = self._node_status()
                self._beat_for(self.node, status)
                for node in tuple(self.pool):
                    self._beat_for(node, {"conditions": status["conditions"]})

    def _beat_for(self, node: str, status: Object) -> None:
        with contextlib.suppress(AnswerError, OSError):
            self.api.merge("Node", None, node, {"status": status}, "status")

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                for kind, pod in self.api.watch("Pod", None):
                    self._on_event(kind, pod)
            except OSError:
                pass
            self._ended.wait(0.2)

    def _on_event(self, kind: str, pod_object: Object) -> None:
        if kind == "ERROR":
            return
        uid = pod_object["metadata"]["uid"]
        pod = self.pods.get(uid)
        if pod is None and kind != "DELETED":
            pod = self.pods[uid] = Pod(self, pod_object)
            script = self._scripts.get((pod.namespace, pod.component))
            if script is not None:
                threading.Thread(target=self._led, args=(script, pod), daemon=True).start()
        if pod is not None and (
            kind == "DELETED" or pod_object["metadata"].get("deletionTimestamp")
        ):
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
