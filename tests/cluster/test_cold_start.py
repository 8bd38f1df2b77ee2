"""A cold start on a real node: phases of the pod and of the server explain the whole start."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from images.catalogue import ROOT, reference, version

from inferometer_api.results.cold_start import IMAGE_PULLED
from inferometer_api.results.result import ResultDocument
from support.agent_chart import agents_installed, agents_namespace
from support.cluster.cluster import Cluster
from support.cluster.images import images
from support.cluster.registry import REGISTRY, throttled_registry
from support.node_runs import condition, make_run, wait_for, wait_for_reason
from support.operator_installed import operator_installed

_PLUGIN = str(Path(sys.executable).with_name("kubectl-inferometer"))

_SERVING = "inferometer-serving"
_REPOSITORY = f"{REGISTRY}/{_SERVING}"
_IMAGE = reference(_SERVING, registry="", tag=version(ROOT))
_BYTES_PER_SECOND = 24 << 20


@pytest.fixture
def installed(cluster: Cluster) -> Iterator[str]:
    """Install the operator by its chart."""
    values = {"load": {"resources": {"cpu": "50m", "memory": "256Mi"}}}
    with operator_installed(cluster, "cold", values) as namespace:
        yield namespace


@pytest.fixture
def from_registry(cluster: Cluster) -> Iterator[tuple[str, int]]:
    """Install operator and image removers; the node pulls the serving image from a slow registry.

    Yields the namespace and the size of the image's blobs.
    """
    (archive,) = (each for each in images() if each.name.startswith(f"{_SERVING}-"))
    account = {"serviceAccount": "inferometer-operator"}
    with ExitStack() as stack:
        size = stack.enter_context(
            throttled_registry(cluster.nodes["node1"], cluster.group, _IMAGE, _BYTES_PER_SECOND)
        )
        # The image goes by all its names.
        stack.callback(cluster.import_image, archive)
        agents = stack.enter_context(agents_namespace(cluster))

        def prepare(namespace: str) -> None:
            operator = account | {"namespace": namespace}
            stack.enter_context(
                agents_installed(cluster, agents, operator, repositories=[_REPOSITORY])
            )

        values = {
            "load": {"resources": {"cpu": "50m", "memory": "256Mi"}},
            "agent": {"namespace": agents, "imageRemoval": True},
            "images": {"serving": {"repository": _REPOSITORY}},
        }
        namespace = stack.enter_context(operator_installed(cluster, "cold-images", values, prepare))
        yield namespace, size


def _finished(cluster: Cluster, namespace: str, folder: Path) -> ResultDocument:
    """Return the result of the run `cold` once it has ended."""
    wait_for(cluster, namespace, "cold", "Finished")
    file = folder / "result.json"
    words = ("result", "cold", "-o", str(file), "--namespace", namespace)
    done = subprocess.run(
        [_PLUGIN, *words, "--kubeconfig", str(cluster.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ResultDocument.model_validate_json(file.read_bytes())


def test_a_cold_start_is_explained_by_its_phases(
    cluster: Cluster, installed: str, tmp_path: Path, require_quiet: Callable[[], None]
) -> None:
    """Two pods, each from its creation to the first answer, with a gap of at most 5 %."""
    cold = [{"name": "cold", "coldStart": {"repeats": 2}}]
    make_run(cluster, installed, "cold", scenarios=cold)
    result = _finished(cluster, installed, tmp_path)
    records = [each.cold_start for each in result.scenarios]
    assert len(records) == 2
    for record in records:
        assert record is not None
        names = [each.name for each in record.phases]
        assert names[0] == "scheduled"
        assert {"modelFetched", "containerStarted", "processStarted", "imported"} <= set(names)
        assert names[-1] == "firstAnswer"
        assert record.resident_bytes == 0
    require_quiet()
    assert max(each.gap_share for each in records if each is not None) <= 0.05, records


def test_a_start_without_image_pulls_it_each_time(
    cluster: Cluster,
    from_registry: tuple[str, int],
    tmp_path: Path,
    require_quiet: Callable[[], None],
) -> None:
    """While another pod uses the image, the run waits and names the pod.

    The phase of the pull has the whole image, and the time that a slow network takes for it.
    """
    namespace, size = from_registry
    _start_user(cluster, namespace)
    make_run(
        cluster,
        namespace,
        "cold",
        scenarios=[{"name": "cold", "coldStart": {"repeats": 2, "state": "Nothing"}}],
        server={
            "resources": {"cpu": "250m", "memory": "512Mi"},
            "placement": {"nodeSelector": {"kubernetes.io/hostname": "node1"}},
        },
    )
    wait_for_reason(cluster, namespace, "cold", "ServerReady", "ImageNotRemoved")
    message = condition(cluster, namespace, "cold", "ServerReady")["message"]
    assert f"The pod {namespace}/user uses {REGISTRY}/{_IMAGE}" in message
    cluster.kubectl("delete", "pod", "user", "--namespace", namespace, "--wait=false")
    records = [each.cold_start for each in _finished(cluster, namespace, tmp_path).scenarios]
    assert len(records) == 2
    for record in records:
        assert record is not None
        assert record.state == "Nothing"
        (pull,) = (each for each in record.phases if each.name == IMAGE_PULLED)
        assert pull.bytes == size
        least_ns = size * 1e9 / _BYTES_PER_SECOND - pull.resolution_nanoseconds
        assert pull.duration_nanoseconds >= least_ns, record
    require_quiet()
    assert max(each.gap_share for each in records if each is not None) <= 0.05, records


def _start_user(cluster: Cluster, namespace: str) -> None:
    """Start a pod that uses the serving image."""
    container = {
        "name": "user",
        "image": f"{REGISTRY}/{_IMAGE}",
        "command": ["python3", "-c", "import signal; signal.pause()"],
        "resources": {"limits": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsNonRoot": True,
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "user"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=json.dumps(pod))
    words = ("wait", "pod/user", "--for=condition=Ready", "--timeout=120s")
    cluster.kubectl(*words, "--namespace", namespace)
