"""Which rights does the operator need, and what for?

The chart's Role is checked against this, and so is the audit log of a real API server: on more and
on less.
"""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.plan.cluster_objects import GROUP

Verb = Literal["create", "delete", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done to one resource."""

    group: str
    """The API group; empty: the core."""
    resource: str
    """In the plural, with its subresource: "pods/log"."""
    verbs: tuple[Verb, ...]
    why: str
    one_name: bool = False
    """Whether it is only for the one object that the operator is configured with."""


RUNS = (
    Right(
        GROUP,
        "benchmarkruns",
        ("delete", "get", "list", "watch"),
        "to carry runs out, and to delete one whose ttlSecondsAfterFinished is over",
    ),
    Right(GROUP, "benchmarkruns/status", ("patch",), "to tell what was found"),
    Right(
        "apps",
        "deployments",
        ("create", "delete", "get", "watch"),
        "the inference server of a run",
    ),
    Right("batch", "jobs", ("create", "delete", "get", "watch"), "the load generator of a run"),
    Right(
        "",
        "pods",
        ("list", "watch"),
        "to see where servers are, External ones too, and why one does not start",
    ),
    Right("", "pods/log", ("get",), "the result is handed over in the load generator's log"),
    Right(
        "",
        "configmaps",
        ("create", "delete", "get", "list"),
        "the load generator's plan, the result, and to see the label of one that a run names",
    ),
    Right(
        "",
        "persistentvolumeclaims",
        ("get",),
        "to see the label of a claim that a run names",
    ),
    Right(
        "",
        "services",
        ("create", "delete", "get"),
        "the names of a fleet's pods, and the address of an External server",
    ),
    Right(
        "discovery.k8s.io",
        "endpointslices",
        ("list",),
        "to see on which nodes the pods of an External server are",
    ),
    Right(
        "",
        "events",
        ("create", "list"),
        "to tell in `kubectl describe` what happens, and to see why a pod does not start",
    ),
)
"""In every namespace that is served."""

SECRETS = (
    Right(
        "",
        "secrets",
        ("get",),
        "to see the label of a Secret that a run names; its content is not asked for",
    ),
)
"""Beside RUNS, only where the admin lets runs name Secrets."""

AGENTS = (
    Right(
        "discovery.k8s.io",
        "endpointslices",
        ("list",),
        "to see where the agent on each server's node is asked",
    ),
)
"""In the namespace of the node agents: their own chart grants it."""

LEASE = (
    Right("coordination.k8s.io", "leases", ("create",), "to lead, of several operators"),
    Right(
        "coordination.k8s.io",
        "leases",
        ("get", "update"),
        "to keep leading, and to see that another one leads",
        one_name=True,
    ),
)
"""In the operator's own namespace."""
