"""The common part of all pods of a run: the pod security standard "restricted".

They hold no credentials of the API, and write only to folders that end with the pod.
"""

from collections.abc import Sequence

from inferometer_api.plan.cluster_objects import (
    COMPONENT_LABEL,
    LOADGEN,
    NODE_BENCHMARK,
    RUN_UID_LABEL,
    SERVER,
)
from inferometer_api.plan.deadlines import JOB_MARGIN_SECONDS
from inferometer_api.spec.run import BenchmarkRun
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.settings import Images, Settings

USER_ID = 10001
PYTHON = "python3"
HOST = "kubernetes.io/hostname"
"""The label whose value differs from node to node."""
SCRAPED_PORT = "http"
"""The name of the port with the metrics, on servers and load generators alike."""
_TEMPORARY = "tmp"
_NODE_LOST_SECONDS = 15
"""How long a pod stays bound to a node that stopped answering; Kubernetes' default is 300."""


def container(
    name: str, image: str, images: Images, command: Sequence[str], resources: Manifest
) -> Manifest:
    """Return a container that can only run its command and write to /tmp."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": images.pull_policy,
        **({"command": plain_words(command)} if command else {}),
        # Libraries need a home folder; the image's own is read-only.
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - an emptyDir of this pod alone
        "resources": resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": _TEMPORARY, "mountPath": "/tmp"}],  # noqa: S108 - as above
    }


def plain_words(words: Sequence[str]) -> list[str]:
    """Return words that Kubernetes leaves as they are.

    It would replace $(NAME) by a variable, and so by a Secret's key.
    """
    return [word.replace("$", "$$") for word in words]


def pod_spec(settings: Settings, owner: Owner, *, grace_seconds: int) -> Manifest:
    """Return what is in the spec of every pod of a run; containers and volumes are added to it."""
    images = settings.images
    spec: Manifest = {
        "affinity": {"podAntiAffinity": _apart_from_other_runs(owner)},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_seconds,
        "securityContext": {
            # A large volume is not walked through at each start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{fault}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _NODE_LOST_SECONDS,
            }
            for fault in ("not-ready", "unreachable")
        ],
        "volumes": [{"name": _TEMPORARY, "emptyDir": {"sizeLimit": "1Gi"}}],
    }
    if settings.fixed_user:
        user = dict.fromkeys(("fsGroup", "runAsGroup", "runAsUser"), USER_ID)
        spec["securityContext"].update(user)
    if images.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in images.pull_secrets]
    if settings.priority_class is not None:
        spec["priorityClassName"] = settings.priority_class
    return spec


def _apart_from_other_runs(owner: Owner) -> Manifest:
    """Return that no pod of another run or NodeBenchmark may be on the node, in any namespace.

    Pods of one run share nodes. Those that have ended do not count for the scheduler.
    """
    selector = {
        "matchExpressions": [
            {"key": COMPONENT_LABEL, "operator": "In", "values": [SERVER, LOADGEN, NODE_BENCHMARK]},
            # NotIn alone would also match pods without the label.
            {"key": RUN_UID_LABEL, "operator": "Exists"},
            {"key": RUN_UID_LABEL, "operator": "NotIn", "values": [owner.uid]},
        ]
    }
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOST}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def job_deadline_seconds(run: BenchmarkRun) -> int:
    """Return when Kubernetes ends a Job of a run whose operator is gone."""
    return run.spec.active_deadline_seconds + JOB_MARGIN_SECONDS


def mount(target: Manifest, volume: str, path: str, *, read_only: bool) -> None:
    """Mount a volume into a container."""
    target["volumeMounts"].append({"name": volume, "mountPath": path, "readOnly": read_only})


def scrape_annotations(port: int, settings: Settings) -> Manifest:
    """Return the metadata by which a Prometheus without PodMonitors finds a pod.

    Empty if the admin has disabled it.
    """
    if not settings.metrics.scrape_annotations:
        return {}
    words = {"scrape": "true", "port": str(port), "path": "/metrics"}
    return {"annotations": {f"prometheus.io/{name}": value for name, value in words.items()}}
