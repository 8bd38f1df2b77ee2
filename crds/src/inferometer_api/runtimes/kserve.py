"""KServe: the project's server behind an InferenceService, measured through KServe's Service."""

from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    Refusal,
    RuntimeDescriptor,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.runtimes.launch_refusals import LAUNCHED_REFUSALS, starts_without_tls
from inferometer_api.runtimes.onnxruntime import ONNX_RUNTIME, own_command, own_image
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Server

KSERVE_CONTAINER = "kserve-container"
"""KServe serves a model with the container of this name."""


def _containers(run: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
    image = own_image(run.spec.server)
    return (ServerContainer(name=KSERVE_CONTAINER, image=image, command=own_command(run, start)),)


def _replicas(server: Server) -> str | None:
    if server.replicas == 1:
        return None
    return (
        f"the requests reach {server.replicas} pods through KServe's one Service, which assigns "
        "connections to pods by chance, so that neither the share of a pod nor its restart could "
        "be seen; set 1, or take runtime OnnxRuntime, whose replicas share the requests evenly"
    )


KSERVE = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=lambda _: FetchedLayout(model_file="model.onnx", takes_any_path=True),
        containers=_containers,
        fetcher_image=own_image,
        engine=lambda _: "onnxruntime",
        ready_path="/v2/health/ready",
        stop_seconds=5,
        local=None,
        by_kserve=True,
    ),
    limits=ONNX_RUNTIME.limits,
    refusals=(*LAUNCHED_REFUSALS, Refusal("spec.server.replicas", None, _replicas)),
    runs_steps=True,
    without_tls=starts_without_tls,
    restart_identity=ONNX_RUNTIME.restart_identity,
    varying_settings=ONNX_RUNTIME.varying_settings,
)
