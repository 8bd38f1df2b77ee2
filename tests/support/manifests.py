"""Finds the pods that a run is made of."""

from inferometer_api.runtimes.custom import AllowedServer
from inferometer_api.spec.resolve import fill_defaults
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Toleration
from inferometer_operator.manifests.load_job import load_job
from inferometer_operator.manifests.owner import Manifest, Owner
from inferometer_operator.manifests.server_job import server_job
from inferometer_operator.settings import GpuPods, Images, LoadPods, Settings
from support.runs import Run

OWNER = Owner(name="a-run", namespace="team", uid="0c9e8f3a-1111-4222-8333-444455556666")
IMAGES = Images(serving="r/serving:1", serving_gpu="r/serving-gpu:1", loadgen="r/loadgen:1")
ALLOWED = {"a": AllowedServer(image=f"r/custom@sha256:{'0' * 64}")}
PLAIN = Settings(images=IMAGES, allowed_servers=ALLOWED)
FULL = Settings(
    allowed_servers=ALLOWED,
    images=Images(
        serving="r/serving:1",
        serving_gpu="r/serving-gpu:1",
        loadgen="r/loadgen:1",
        pull_policy="Always",
        pull_secrets=["registry"],
    ),
    gpu=GpuPods(runtime_class="nvidia", tolerations=[Toleration(key="gpu", operator="Exists")]),
    load=LoadPods(
        node_selector={"pool": "load"}, tolerations=[Toleration(key="load", operator="Exists")]
    ),
    priority_class="benchmarks",
    model_storage="3Gi",
)


def read(run: Run) -> BenchmarkRun:
    """Return a valid run, resolved."""
    return fill_defaults(BenchmarkRun.model_validate(run))


def server_pod(run: Run, settings: Settings = PLAIN) -> Manifest:
    """Return the spec of a run's server pods."""
    found: Manifest = server_job(read(run), OWNER, settings)["spec"]["template"]["spec"]
    return found


def load_pod(run: Run, settings: Settings = PLAIN) -> Manifest:
    """Return the spec of a run's load pod."""
    found: Manifest = load_job(read(run), OWNER, settings)["spec"]["template"]["spec"]
    return found


def mounts(container: Manifest) -> dict[str, bool]:
    """Return where a container sees volumes other than /tmp, and whether it can only read them."""
    temporary, *others = container["volumeMounts"]
    assert temporary["name"] == "tmp"
    return {each["mountPath"]: each["readOnly"] for each in others}


def after(flag: str, command: list[str]) -> str:
    """Return the word behind an option in a container's command."""
    return command[command.index(flag) + 1]
