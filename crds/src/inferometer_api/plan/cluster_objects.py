"""Names, labels and ports of the objects of a run in a cluster."""

import hashlib

from inferometer_api.runtimes.descriptor import GRPC_PORT

GROUP = "inferometer.dev"
ALLOW_USE_LABEL = f"{GROUP}/allow-use"
"""A run can only name Secrets, ConfigMaps and claims that have this label with the value "true"."""
RUN_UID_LABEL = f"{GROUP}/run-uid"
"""The UID of the run that an object belongs to."""
ARCHITECTURE_LABEL = "kubernetes.io/arch"
"""Kubernetes' label of nodes for their CPU architecture, in its own names: amd64, arm64."""
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
"""Kubernetes' label of nodes for the machine type of their cloud."""
RUN_LABEL = f"{GROUP}/run"
"""The run's name, shortened to a label value."""
COMPONENT_LABEL = "app.kubernetes.io/component"
REPEAT_LABEL = f"{GROUP}/repeat"
"""On the Job and pods of a server that was restarted between repeats: the repeat that it is for.
Those of the first repeat have none."""
SERVER, LOADGEN, RESULT = "server", "loadgen", "result"
"""Values of the component label of a run's pods and ConfigMaps."""
NODE_BENCHMARK = "nodebenchmark"
"""Value of the component label of the Jobs and pods of a NodeBenchmark."""
WIRE_CLIENT, WIRE_SERVER = "wire", "wire-server"
"""Containers that measure the wire of a node: the load generator, and the server."""
PREFETCH = "prefetch"
"""Value of the component label of the Jobs and pods that bring a suite's models to the nodes."""
EXPORTER = "exporter"
"""The container of a load pod that exports the result."""
ADMISSION = "admission"
"""Value of the component label of a run's Workload, by which Kueue admits it."""
KUEUE_GROUP = "kueue.x-k8s.io"
KUEUE_API_VERSION = f"{KUEUE_GROUP}/v1beta2"
"""Served since Kueue 0.15, which plans to end v1beta1 in 0.17."""
KSERVE_GROUP = "serving.kserve.io"
QUEUE_NAME_LABEL = f"{KUEUE_GROUP}/queue-name"
"""On a run: the LocalQueue of Kueue that must admit it."""
PRIORITY_CLASS_LABEL = f"{KUEUE_GROUP}/priority-class"
"""On a run: its WorkloadPriorityClass of Kueue."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "inferometer-operator"
HOSTNAME_LABEL = "kubernetes.io/hostname"
PULL_ANNOTATION = f"{GROUP}/pull-on"
"""On the Job of a server whose images are removed from a node before it is created: the node."""
JOB_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
"""Set by Kubernetes on each pod of an Indexed Job; of the load's Job, index 0 is the master."""
LEASE = "inferometer-operator"
"""Default name of the Lease that the leading operator holds."""
RESULT_FILE = "result.json.gz"
"""Key in `binaryData` of the part that a ConfigMap of the result holds."""

CACHE_DRIVER = f"cache.{GROUP}"
"""Name of the CSI driver that mounts models from the cache of a node."""
CACHE_ATTRIBUTES = ("uri", "sha256")
"""Attributes of its volumes."""
CACHE_MODEL_FILE = "model.onnx"
"""The name of the ONNX file in every volume."""
CACHE_CHECKSUMS_FILE = "checksums.json"
"""The name of the file in every volume with the verified SHA-256 of each other one."""
CACHE_FOLDER = "model-cache"
"""The folder of the volume in a server pod, next to claims and ConfigMaps."""

DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": GRPC_PORT, "grpcs": 443}
"""Port of a server URL without one, by scheme."""
LOADGEN_PORT = 8080
"""Port of /progress, /stop and /targets of a load generator."""
FLEET_PORT = 5557
"""Port of the master of a fleet; Locust's default."""

_LONGEST = 52
"""Longest stem of an object's name: Job pods add six characters, and a label has 63."""


def _stem(run_name: str, longest: int = _LONGEST - len("-server")) -> str:
    """Return the run's name if it is a short DNS label, otherwise its start and a hash."""
    plain = run_name.replace(".", "-")
    if plain == run_name and len(plain) <= longest:
        return plain
    digest = hashlib.sha256(run_name.encode()).hexdigest()[:8]
    return f"{plain[: longest - 9].rstrip('-')}-{digest}"


def server_name(run_name: str) -> str:
    """Return the name of the run's server Job."""
    return f"{_stem(run_name)}-server"


def inference_name(run_name: str) -> str:
    """Return the name of the run's InferenceService.

    It starts with a letter, as KServe requires. It is short, because KServe joins it with the
    namespace into one label of a host name.
    """
    return f"kserve-{_stem(run_name, 20)}"


def predictor_name(run_name: str) -> str:
    """Return the name of the Deployment and the Service that KServe creates for the run."""
    return f"{inference_name(run_name)}-predictor"


def load_name(run_name: str) -> str:
    """Return the name of the run's load Job, and of the ConfigMap with its plan."""
    return f"{_stem(run_name)}-load"


def begun_name(run_name: str) -> str:
    """Return the name of the ConfigMap that records that the run's load Job was created."""
    return f"{_stem(run_name)}-begun"


def load_service_name(run_name: str) -> str:
    """Return the name of the headless Service of a run's load pods.

    The prefix makes it start with a letter, as a Service's name must.
    """
    return f"load-{_stem(run_name)}"


def result_name(run_name: str, run_uid: str, part: int) -> str:
    """Return the name of the ConfigMap with a part of the result; parts count from 0.

    The UID keeps the names of other objects apart: a result that is measured must find room.
    """
    return f"{_stem(run_name)}-result-{run_uid[:8]}-{part}"


def export_name(run_name: str, run_uid: str) -> str:
    """Return the name of the folder with a run's exported result."""
    return f"{_stem(run_name)}-{run_uid[:8]}"


def node_benchmark_child(name: str, uid: str, node: str) -> str:
    """Return the name of the Job of a NodeBenchmark on a node, and of its ConfigMap."""
    digest = hashlib.sha256(f"{uid}/{node}".encode()).hexdigest()[:10]
    return f"{_stem(name)[: _LONGEST - 11].rstrip('-')}-{digest}"


def wire_key(node: str) -> str:
    """Return what stands for a node in the name of the Job that measures its wire."""
    return f"{node}/wire"


def peer_key(node: str) -> str:
    """Return the same for the Job of the server, on another node, that it is measured to."""
    return f"{node}/peer"


def prefetch_name(suite_name: str, suite_uid: str, what: str) -> str:
    """Return the name of the Job of a suite that brings a model to a place, which `what` names."""
    digest = hashlib.sha256(f"{suite_uid}/{what}".encode()).hexdigest()[:10]
    return f"{_stem(suite_name)[: _LONGEST - 20].rstrip('-')}-prefetch-{digest}"


def workload_name(run_name: str) -> str:
    """Return the name of the run's Workload, by which Kueue admits it."""
    return f"{_stem(run_name)}-workload"


def labels(run_name: str, run_uid: str, component: str) -> dict[str, str]:
    """Return the labels of an object of a run."""
    return {
        "app.kubernetes.io/name": "inferometer",
        COMPONENT_LABEL: component,
        MANAGED_BY_LABEL: MANAGER,
        RUN_LABEL: _stem(run_name),
        RUN_UID_LABEL: run_uid,
    }


def selector(run_uid: str) -> str:
    """Return the label selector of all objects of a run."""
    return f"{RUN_UID_LABEL}={run_uid}"
