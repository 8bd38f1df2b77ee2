"""A client of the API server that starts no kubectl."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from support.cluster.control_plane import ControlPlane

Object = dict[str, Any]
_PLURALS = {
    "BenchmarkRun": "apis/inferometer.dev/v1alpha1 benchmarkruns",
    "BenchmarkSuite": "apis/inferometer.dev/v1alpha1 benchmarksuites",
    "ConfigMap": "api/v1 configmaps",
    "Deployment": "apis/apps/v1 deployments",
    "EndpointSlice": "apis/discovery.k8s.io/v1 endpointslices",
    "Event": "api/v1 events",
    "InferenceService": "apis/serving.kserve.io/v1beta1 inferenceservices",
    "Job": "apis/batch/v1 jobs",
    "Lease": "apis/coordination.k8s.io/v1 leases",
    "Node": "api/v1 nodes",
    "NodeBenchmark": "apis/inferometer.dev/v1alpha1 nodebenchmarks",
    "PersistentVolumeClaim": "api/v1 persistentvolumeclaims",
    "Pod": "api/v1 pods",
    "ReplicaSet": "apis/apps/v1 replicasets",
    "ResourceFlavor": "apis/kueue.x-k8s.io/v1beta2 resourceflavors",
    "ResourceQuota": "api/v1 resourcequotas",
    "Secret": "api/v1 secrets",
    "Service": "api/v1 services",
    "Workload": "apis/kueue.x-k8s.io/v1beta2 workloads",
    "WorkloadPriorityClass": "apis/kueue.x-k8s.io/v1beta2 workloadpriorityclasses",
}


def path_of(kind: str, namespace: str | None = None, name: str = "", below: str = "") -> str:
    """Return the path of an object, or of all of a kind."""
    root, plural = _PLURALS[kind].split()
    words = [root, *(("namespaces", namespace) if namespace else ()), plural, name, below]
    return "/" + "/".join(word for word in words if word)


class AnswerError(Exception):
    """The API server answered with an error."""

    def __init__(self, code: int, body: str) -> None:
        super().__init__(f"{code}: {body}")
        self.code = code


class Api:
    """A client with a connection for each thread that uses it."""

    def __init__(self, control_plane: ControlPlane, token: str | None = None) -> None:
        self._address = urlsplit(control_plane.url)
        self._token = token or control_plane.token
        self._tls = ssl.create_default_context(cafile=control_plane.authority)
        self._local = threading.local()
        self._open: list[http.client.HTTPSConnection] = []

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every connection."""
        self.close()

    def close(self) -> None:
        """Close every connection, of all threads."""
        for connection in self._open:
            if connection.sock is not None:
                with contextlib.suppress(OSError):
                    # A watch that another thread reads from ends by this alone.
                    connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Return the JSON of the answer; AnswerError for one with an error."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = body if isinstance(body, str) or body is None else json.dumps(body)
        code, text = self._sent(method, target, data, content_type)
        if code >= 400:
            raise AnswerError(code, text)
        return json.loads(text) if text.startswith("{") else text

    def found(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """Return an object, None if there is none."""
        try:
            found: Object = self.ask("GET", path_of(kind, namespace, name))
        except AnswerError as error:
            if error.code == 404:
                return None
            raise
        return found

    def all(self, kind: str, namespace: str | None, labels: str = "") -> list[Object]:
        """Return all objects of a kind."""
        query = {"labelSelector": labels} if labels else None
        return list(self.ask("GET", path_of(kind, namespace), query=query)["items"])

    def create(self, kind: str, namespace: str | None, body: Object) -> Object:
        """Create an object under strict validation."""
        made: Object = self.ask(
            "POST", path_of(kind, namespace), body, query={"fieldValidation": "Strict"}
        )
        return made

    def merge(
        self, kind: str, namespace: str | None, name: str, body: Object, below: str = ""
    ) -> Object:
        """Change an object by a merge patch."""
        changed: Object = self.ask(
            "PATCH",
            path_of(kind, namespace, name, below),
            body,
            content_type="application/merge-patch+json",
        )
        return changed

    def delete(self, kind: str, namespace: str | None, name: str, **options: Any) -> None:
        """Delete an object, if it is there."""
        try:
            self.ask("DELETE", path_of(kind, namespace, name), options or None)
        except AnswerError as error:
            if error.code != 404:
                raise

    def watch(
        self, kind: str, namespace: str | None, labels: str = ""
    ) -> Iterator[tuple[str, Object]]:
        """Yield what happens, and first what is there; ends when the connection does."""
        connection = self._connection()
        selected = {"labelSelector": labels} if labels else {}
        query = urlencode({"watch": "true", "timeoutSeconds": "600", **selected})
        connection.request("GET", f"{path_of(kind, namespace)}?{query}", headers=self._headers())
        try:
            answer = connection.getresponse()
            while line := answer.readline():
                event = json.loads(line)
                yield event["type"], event["object"]
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            # The last is the library's error for a connection that was closed meanwhile.
            return
        finally:
            connection.close()

    def _sent(
        self, method: str, target: str, data: str | None, content_type: str
    ) -> tuple[int, str]:
        # A connection that the server has closed meanwhile is tried anew once.
        for last in (False, True):
            connection = getattr(self._local, "connection", None) or self._connection()
            self._local.connection = connection
            try:
                connection.request(method, target, body=data, headers=self._headers(content_type))
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except (OSError, http.client.HTTPException):
                connection.close()
                self._local.connection = None
                if last:
                    raise
        raise AssertionError("The second attempt returns or raises.")

    def _connection(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(
            str(self._address.hostname), self._address.port, context=self._tls, timeout=60
        )
        self._open.append(connection)
        return connection

    def _headers(self, content_type: str = "application/json") -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
