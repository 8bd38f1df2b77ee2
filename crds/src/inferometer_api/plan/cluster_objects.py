"""What are the objects of a run called in a cluster, and how are they told from others?"""

import hashlib

from inferometer_api.runtimes.descriptor import GRPC_PORT

GROUP = "inferometer.dev"
ALLOW_USE_LABEL = f"{GROUP}/allow-use"
"""A Secret, ConfigMap or claim must carry it with the value "true", else no run can name it."""
RUN_UID_LABEL = f"{GROUP}/run-uid"
"""The UID of the run that an object was made for."""
RUN_LABEL = f"{GROUP}/run"
"""The run's name, shortened to a label value."""
COMPONENT_LABEL = "app.kubernetes.io/component"
SERVER, LOADGEN, RESULT = "server", "loadgen", "result"
"""Values of the component label of a run's pods and ConfigMaps."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "inferometer-operator"
JOB_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
"""Kubernetes' own, of each pod of an Indexed Job: that of index 0 speaks for a fleet."""
LEASE = "inferometer-operator"
"""The Lease that the operator which leads holds, where nobody names another."""
RESULT_FILE = "result.json.gz"
"""The key under which a ConfigMap of the result holds its part, in `binaryData`."""

DEFAULT_PORTS = {"http": 80, "https": 443, "grpc": GRPC_PORT, "grpcs": 443}
"""Where a server is whose URL names no port, by its scheme."""
LOADGEN_PORT = 8080
"""Where a load generator answers /progress and /stop."""
FLEET_PORT = 5557
"""Where the workers of a fleet find their master in a cluster: Locust's own choice."""

_LONGEST = 52
"""The longest name of a child's stem: Job pods add a dash and five letters to a label of 63."""


def _stem(run_name: str) -> str:
    """Return a DNS label that is the run's name where it can be, else its beginning and a hash."""
    plain = run_name.replace(".", "-")
    if plain == run_name and len(plain) <= _LONGEST - len("-server"):
        return plain
    digest = hashlib.sha256(run_name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST - len('-server') - 9].rstrip('-')}-{digest}"


def server_name(run_name: str) -> str:
    """Return the name of the run's server Deployment."""
    return f"{_stem(run_name)}-server"


def load_name(run_name: str) -> str:
    """Return the name of the run's load Job, and of the ConfigMap with its plan."""
    return f"{_stem(run_name)}-load"


def fleet_name(run_name: str) -> str:
    """Return the name of the Service below which the pods of a run's fleet have names.

    A Service's name begins with a letter, which a run's need not.
    """
    return f"fleet-{_stem(run_name)}"


def result_name(run_name: str, part: int) -> str:
    """Return the name of the ConfigMap that holds one part of the result, counted from 0."""
    return f"{_stem(run_name)}-result-{part}"


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
    """Return the label selector of everything that was made for a run."""
    return f"{RUN_UID_LABEL}={run_uid}"
