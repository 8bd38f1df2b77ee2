"""The Kubernetes API server of a command, and what its errors mean to the user.

The command line's only module that uses the Kubernetes client. Objects are plain JSON.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
import yaml
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.config.kube_config import KubeConfigMerger

from inferometer_api.crd import GROUP, PLURAL, VERSION
from inferometer_cli.cluster.options import ClusterOptions
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import program_name

Json = dict[str, Any]
Downloaded = tuple[int, dict[str, str], bytes]
"""Status, headers and body of an answer."""

# The client's functions have no types of their own.
_contexts: Callable[[str], tuple[list[Json], Json]] = list_kube_config_contexts
_load: Callable[..., None] = load_kube_config
_merged: Callable[[str], Any] = KubeConfigMerger
_load_of_pod: Callable[[Configuration], None] = load_incluster_config

# The client's loader assumes a well-formed kubeconfig and fails in many ways if it is not.
_UNUSABLE = (
    *(ConfigException, OSError, ValueError, TypeError),
    *(KeyError, IndexError, AttributeError, yaml.YAMLError),
)

_CONNECT_SECONDS, _ANSWER_SECONDS = 10.0, 30.0
_IN_POD = "KUBERNETES_SERVICE_HOST"
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Requests an object's metadata only, so that the content of Secrets is never read."""
_DEFAULT_NAMESPACE = "default"


class NotThereError(RefusedError):
    """The object does not exist."""


class ForbiddenError(RefusedError):
    """The user lacks the right."""


class ClusterUnreachableError(FailedError):
    """The API server did not answer, or not as an API server does."""


class Cluster:
    """An API server and the namespace of a command."""

    def __init__(self, configuration: Configuration, namespace: str) -> None:
        self.host: str = configuration.host
        self.namespace = namespace
        self._server_time: datetime | None = None
        # A user waits: report failures at once instead of retrying silently.
        configuration.retries = 0
        if not configuration.verify_ssl:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._client = ApiClient(configuration)

    @property
    def now(self) -> datetime:
        """The API server's time at its last answer; before that, this machine's."""
        return self._server_time or datetime.now(tz=UTC)

    def read(
        self, path: str, query: Mapping[str, str] | None = None, *, metadata_only: bool = False
    ) -> Json:
        """Return an object or a list. Raises the errors of this module."""
        accept = _METADATA if metadata_only else _JSON
        return self._request("GET", f"{path}?{urlencode(query)}" if query else path, accept=accept)

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """Create an object, for example an access review, and return the server's answer."""
        return self._request("POST", path, body, _JSON)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Json:
        """Set fields of an object and return the updated object."""
        return self._request("PATCH", path, patch, _MERGE_PATCH)

    def delete(self, path: str) -> Json:
        """Delete an object, and return the server's answer."""
        return self._request("DELETE", path)

    def run_path(self, name: str = "") -> str:
        """Return the path of a BenchmarkRun of the namespace, or of all of them."""
        runs = f"/apis/{GROUP}/{VERSION}/namespaces/{quote(self.namespace)}/{PLURAL}"
        return f"{runs}/{quote(name, safe='')}" if name else runs

    def core_path(self, plural: str, name: str = "") -> str:
        """Return the path of an object of the core API in the namespace, or of all of them."""
        objects = f"/api/v1/namespaces/{quote(self.namespace)}/{plural}"
        return f"{objects}/{quote(name, safe='')}" if name else objects

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        kind: str = "",
        *,
        accept: str = _JSON,
    ) -> Json:
        headers = {"Accept": accept, "User-Agent": "kubectl-inferometer"}
        if kind:
            headers["Content-Type"] = kind
        status, _, text = self._send(method, path, headers, body)
        return self.parse(status, text)

    def download(self, path: str, headers: Mapping[str, str]) -> Downloaded:
        """Return what is at a path as it is, also an error. Raises ClusterUnreachableError."""
        own = {"User-Agent": "kubectl-inferometer", **headers}
        return self._send("GET", path, own, None)

    def _send(
        self, method: str, path: str, headers: dict[str, str], body: Mapping[str, Any] | None
    ) -> Downloaded:
        self._client.update_params_for_auth(
            headers, [], ["BearerToken"], path, method, body, request_auth=None
        )
        try:
            answer = self._client.call_api(
                method,
                f"{self.host}{path}",
                headers,
                body,
                _request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
            )
            self._hear_time(answer.headers.get("Date"))
            text: bytes = answer.read()  # type: ignore[no-untyped-call] # the client's own
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise ClusterUnreachableError(
                f"Cannot reach the API server {self.host}: {_cause(error)}. Check that the "
                "cluster is running, and KUBECONFIG or --context; `kubectl cluster-info` shows "
                "more."
            ) from error
        return answer.status, dict(answer.headers), text

    def _hear_time(self, date: str | None) -> None:
        with contextlib.suppress(ValueError):
            self._server_time = parsedate_to_datetime(date or "")

    def parse(self, status: int, text: bytes) -> Json:
        """Return the object in an answer. Raises the error that its status stands for."""
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            # An API server without the API group answers in plain text.
            if status == 404:
                raise NotThereError(f"The API server {self.host} does not serve this resource.")
            raise ClusterUnreachableError(
                f"{self.host} answered with status {status} and without a JSON object. Check that "
                "it is a Kubernetes API server."
            )
        if 200 <= status <= 299:
            return content
        message = content.get("message") or content.get("error") or f"status {status}"
        message = str(message).rstrip(".")
        match status:
            case 401:
                raise ForbiddenError(
                    f"The API server {self.host} rejected the credentials: {message}. Log in "
                    "again, or choose another --context."
                )
            case 403:
                raise ForbiddenError(
                    f"Forbidden: {message}. Ask the cluster's administrator for this permission, "
                    "or choose another --context."
                )
            case 404:
                raise NotThereError(f"Not found: {message}.")
            case 400 | 409 | 413 | 422 | 429:
                raise RefusedError(f"The API server rejected the request: {message}.")
            case _:
                raise ClusterUnreachableError(
                    f"The API server {self.host} failed with status {status}: {message}. Try "
                    "again later."
                )


def connect(where: ClusterOptions) -> Cluster:
    """Return the cluster that kubectl would choose with these options.

    No request is sent yet. Raises RefusedError if no cluster is configured.
    """
    configuration = Configuration()
    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    file = str(where.kubeconfig) if where.kubeconfig is not None else os.path.expandvars(named)
    try:
        contexts, current = _contexts(file)
        _load(file, where.context, configuration, persist_config=False)
    except _UNUSABLE as error:
        inside_pod = os.environ.get(_IN_POD) and where.context is None and where.kubeconfig is None
        if inside_pod:
            return _cluster_of_pod(where, configuration)
        raise RefusedError(
            f"No cluster is configured: {_one_line(error)} ({file}). Give --kubeconfig FILE, or "
            f"set KUBECONFIG. Without a cluster, use `{program_name()} run`."
        ) from error
    chosen = next((c for c in contexts if c["name"] == where.context), current)
    _refuse_impersonation(file, chosen["context"].get("user"))
    namespace = where.namespace or chosen["context"].get("namespace") or _DEFAULT_NAMESPACE
    return Cluster(configuration, namespace)


def _refuse_impersonation(file: str, user: str | None) -> None:
    """Raise RefusedError if the kubeconfig impersonates a user: the client cannot do that."""
    users = _merged(file).config.safe_get("users") or []
    settings = next((each["user"] for each in users if each["name"] == user), None)
    acts_as = settings.safe_get("as") if settings is not None else None
    if acts_as:
        raise RefusedError(
            f"The kubeconfig's user {user} impersonates {acts_as}, which {program_name()} does "
            "not support. Choose a --context without impersonation."
        )


def _cluster_of_pod(where: ClusterOptions, configuration: Configuration) -> Cluster:
    try:
        _load_of_pod(configuration)
    except ConfigException as error:
        raise RefusedError(
            f"No cluster is configured: there is no kubeconfig, and {_one_line(error)}"
        ) from error
    return Cluster(configuration, where.namespace or _DEFAULT_NAMESPACE)


def _cause(error: Exception) -> str:
    """Return the network error without the objects that urllib3 puts in front of it."""
    if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        error = error.reason
    text = _one_line(error)
    return (text.rpartition("): ")[2] if ": Failed to " in text else text).rstrip(".")


def _one_line(error: Exception) -> str:
    text = getattr(error, "reason", None) if isinstance(error, ApiException) else None
    return " ".join(str(text or error).split())
