"""A fresh namespace for each test."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol

from support.waiting import wait_until

_NUMBERS = count(1)


class Kubectl(Protocol):
    """Whatever runs kubectl commands: a control plane, a cluster."""

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Return what the command writes."""


@contextmanager
def fresh_namespace(cluster: Kubectl, prefix: str = "test") -> Iterator[str]:
    """Make a namespace in which only restricted pods are admitted; delete it without waiting."""
    name = f"{prefix}-{next(_NUMBERS)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": labels}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(namespace))
    # Until it is there, no pod of the namespace is admitted.
    wait_until(lambda: _has_account(cluster, name), f"The default service account of {name}")
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def _has_account(cluster: Kubectl, namespace: str) -> bool:
    words = ("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name")
    return bool(cluster.kubectl("--namespace", namespace, *words).strip())
