"""Rights of the operator, and the reason for each.

Tests compare them with the chart's Role and with the audit log of a real API server, in both
directions.
"""

from dataclasses import dataclass
from typing import Literal

from inferometer_api.plan.cluster_objects import GROUP, KSERVE_GROUP, KUEUE_GROUP

Verb = Literal["create", "delete", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs that are allowed on one resource."""

    group: str
    """API group; empty for the core."""
    resource: str
    """Resource in the plural, with its subresource: "pods/log"."""
    verbs: tuple[Verb, ...]
    why: str
    one_name: bool = False
    """Whether the right is limited to one object, which the operator's settings name."""


RUNS = (
    Right(
        GROUP,
        "benchmarkruns",
        ("create", "delete", "get", "list", "patch", "watch"),
        "to carry runs out, to delete one whose ttlSecondsAfterFinished is over, and to create and "
        "cancel those of a suite",
    ),
    Right(
        GROUP, "benchmarkruns/status", ("patch",), "to report the state and the figures of a run"
    ),
    Right(
        GROUP,
        "benchmarksuites",
        ("create", "delete", "get", "list", "patch", "watch"),
        "to carry suites out, and to create, cancel and delete the executions of a schedule",
    ),
    Right(GROUP, "benchmarksuites/status", ("patch",), "to report the state of a suite"),
    Right(
        GROUP,
        "nodebenchmarks",
        ("delete", "get", "list", "watch"),
        "to measure nodes, and to delete a NodeBenchmark whose ttlSecondsAfterFinished is over",
    ),
    Right(GROUP, "nodebenchmarks/status", ("patch",), "to report the state of a NodeBenchmark"),
    Right(
        "batch",
        "jobs",
        ("create", "delete", "get", "list", "watch"),
        "the server and the load generator of a run, and the measurement of a node",
    ),
    Right(
        "apps",
        "deployments",
        ("delete", "get", "list"),
        "to delete servers that an operator before server Jobs has left",
    ),
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
        ("create", "delete", "get", "list", "watch"),
        "the load generator's plan, the result, and to see the label of one that a run names, and "
        "the manifest in it",
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
        ("create", "delete", "get", "list", "watch"),
        "the names of load pods, and the address of an External server",
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
        "to show in `kubectl describe` what happens, and to see why a pod does not start",
    ),
)
"""In every namespace that the operator serves."""

SECRETS = (
    Right(
        "",
        "secrets",
        ("get",),
        "to see the label of a Secret that a run names; its content is not read",
    ),
)
"""In addition to RUNS, if the admin lets runs name Secrets."""

KUEUE = (
    Right(
        KUEUE_GROUP,
        "workloads",
        ("create", "delete", "get", "list", "watch"),
        "to have Kueue admit a run with a queue's label, and to see that it evicts one",
    ),
    Right(
        KUEUE_GROUP,
        "workloads/status",
        ("patch",),
        "to report to Kueue that a run measures, and that its quota is free",
    ),
)
"""In addition to RUNS, if the admin lets Kueue admit runs."""

KSERVE = (
    Right(
        KSERVE_GROUP,
        "inferenceservices",
        ("create", "delete", "get", "list", "watch"),
        "to have KServe run the server of a run",
    ),
    Right(
        "apps",
        "replicasets",
        ("get",),
        "to see which pods belong to a run's InferenceService",
    ),
)
"""In addition to RUNS, if the admin lets runs use KServe."""

KUEUE_CLUSTER = (
    Right(
        KUEUE_GROUP,
        "resourceflavors",
        ("get",),
        "the node labels and tolerations of the flavors that Kueue assigns to a run",
    ),
    Right(
        KUEUE_GROUP,
        "workloadpriorityclasses",
        ("get",),
        "the value of the priority class that a run's label names",
    ),
)
"""With KUEUE, in the whole cluster: these objects have no namespace."""

NODES = (
    Right(
        "",
        "nodes",
        ("list",),
        "to find the nodes of a suite's systems and their images, those of NodeBenchmarks, and the "
        "machines of a run's servers",
    ),
)
"""In the whole cluster, if the admin lets suites choose their nodes."""

AGENTS = (
    Right(
        "discovery.k8s.io",
        "endpointslices",
        ("list",),
        "to find the agent on the node of each server",
    ),
)
"""In the namespace of the node agents; their own chart grants it."""

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

OTHER_OPERATORS = (
    Right(
        "coordination.k8s.io",
        "leases",
        ("get",),
        "to see whether an operator for one namespace alone serves its runs",
        one_name=True,
    ),
)
"""In addition to RUNS, for an operator that serves every namespace."""
