"""How is the API server asked, and what is said where it does not answer as hoped?

The command line's only place that knows the Kubernetes client. Objects are plain JSON.
"""

import json
import os
from collections.abc import Callable, Mapping
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

# The client's functions have no types of their own.
_contexts: Callable[[str], tuple[list[Json], Json]] = list_kube_config_contexts
_load: Callable[..., None] = load_kube_config
_merged: Callable[[str], Any] = KubeConfigMerger
_load_of_pod: Callable[[Configuration], None] = load_incluster_config

# Its loader takes a kubeconfig to be well formed, and fails as it may where it is not.
_UNUSABLE = (
    *(ConfigException, OSError, ValueError, TypeError),
    *(KeyError, IndexError, AttributeError, yaml.YAMLError),
)

_CONNECT_SECONDS, _ANSWER_SECONDS = 10.0, 30.0
_IN_POD = "KUBERNETES_SERVICE_HOST"
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""An object's name, labels and the like travel, and no Secret's content."""
_DEFAULT_NAMESPACE = "default"


class NotThereError(RefusedError):
    """The API server knows no such object."""


class ForbiddenError(RefusedError):
    """The API server does not let this user do it."""


class UnreachableError(FailedError):
    """The API server did not answer, or not in order."""


class Cluster:
    """An API server, and the namespace that a command line means."""

    def __init__(self, configuration: Configuration, namespace: str) -> None:
        self.host: str = configuration.host
        self.namespace = namespace
        # A person waits: what fails is said at once, not tried again behind their back.
        configuration.retries = 0
        if not configuration.verify_ssl:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._client = ApiClient(configuration)

    def read(
        self, path: str, query: Mapping[str, str] | None = None, *, metadata_only: bool = False
    ) -> Json:
        """Return an object or a list. Raises the errors of this module."""
        accept = _METADATA if metadata_only else _JSON
        return self._asked("GET", f"{path}?{urlencode(query)}" if query else path, accept=accept)

    def create(self, path: str, body: Mapping[str, Any]) -> Json:
        """Create an object, a review of rights for example, and return it as it came back."""
        return self._asked("POST", path, body, _JSON)

    def merge(self, path: str, patch: Mapping[str, Any]) -> Json:
        """Set fields of an object and return it as it is then."""
        return self._asked("PATCH", path, patch, _MERGE_PATCH)

    def run_path(self, name: str = "") -> str:
        """Return the path of a BenchmarkRun of the namespace, or of all of them."""
        runs = f"/apis/{GROUP}/{VERSION}/namespaces/{quote(self.namespace)}/{PLURAL}"
        return f"{runs}/{quote(name, safe='')}" if name else runs

    def core_path(self, plural: str, name: str = "") -> str:
        """Return the path of an object of the core API in the namespace, or of all of them."""
        objects = f"/api/v1/namespaces/{quote(self.namespace)}/{plural}"
        return f"{objects}/{quote(name, safe='')}" if name else objects

    def _asked(
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
            text: bytes = answer.read()  # type: ignore[no-untyped-call] # the client's own
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            raise UnreachableError(
                f"The API server {self.host} could not be asked: {_cause(error)}. See that the "
                "cluster runs and that --context names it; kubectl cluster-info tells more."
            ) from error
        return self._answered(answer.status, text)

    def _answered(self, status: int, text: bytes) -> Json:
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            # An API server that knows not even the group answers so, in plain text.
            if status == 404:
                raise NotThereError(f"The API server {self.host} knows no such kind of object.")
            raise UnreachableError(
                f"{self.host} answered {status} and no JSON object: is it a Kubernetes API server?"
            )
        if 200 <= status <= 299:
            return told
        message = str(told.get("message") or f"status {status}").rstrip(".")
        match status:
            case 401:
                raise ForbiddenError(
                    f"The API server {self.host} does not know who asks: {message}. Log in again, "
                    "or choose another --context."
                )
            case 403:
                raise ForbiddenError(
                    f"The API server refuses it: {message}. Ask the cluster's admin for this "
                    "right, or choose another --context."
                )
            case 404:
                raise NotThereError(f"The API server knows it not: {message}.")
            case 400 | 409 | 422:
                raise RefusedError(f"The API server refuses it: {message}.")
            case _:
                raise UnreachableError(
                    f"The API server {self.host} answered {status}: {message}. Try again later."
                )


def connect(where: ClusterOptions) -> Cluster:
    """Return the cluster that a command line means, as kubectl would choose it.

    Nothing is asked of it yet. Raises RefusedError where no cluster is configured.
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
            return _of_pod(where, configuration)
        raise RefusedError(
            f"No cluster is configured: {_one_line(error)} ({file}). Give --kubeconfig FILE, or "
            f"set KUBECONFIG; `{program_name()} run` measures without any cluster."
        ) from error
    chosen = next((c for c in contexts if c["name"] == where.context), current)
    _refuse_impersonation(file, chosen["context"].get("user"))
    namespace = where.namespace or chosen["context"].get("namespace") or _DEFAULT_NAMESPACE
    return Cluster(configuration, namespace)


def _refuse_impersonation(file: str, user: str | None) -> None:
    """Raise RefusedError where kubectl would act as someone else: the client does not do so."""
    users = _merged(file).config.safe_get("users") or []
    settings = next((each["user"] for each in users if each["name"] == user), None)
    acts_as = settings.safe_get("as") if settings is not None else None
    if acts_as:
        raise RefusedError(
            f"The kubeconfig's user {user} acts as {acts_as} (impersonation), which {program_name()} "
            "cannot do. Choose a --context whose user asks in their own name."
        )


def _of_pod(where: ClusterOptions, configuration: Configuration) -> Cluster:
    try:
        _load_of_pod(configuration)
    except ConfigException as error:
        raise RefusedError(
            f"No cluster is configured: there is no kubeconfig, and {_one_line(error)}"
        ) from error
    return Cluster(configuration, where.namespace or _DEFAULT_NAMESPACE)


def _cause(error: Exception) -> str:
    """Return what the network said, without the objects that urllib3 puts before it."""
    if isinstance(error, urllib3.exceptions.MaxRetryError) and error.reason is not None:
        error = error.reason
    text = _one_line(error)
    return (text.rpartition("): ")[2] if ": Failed to " in text else text).rstrip(".")


def _one_line(error: Exception) -> str:
    text = getattr(error, "reason", None) if isinstance(error, ApiException) else None
    return " ".join(str(text or error).split())
