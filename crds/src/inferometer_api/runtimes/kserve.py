"""KServe: the project's server behind an InferenceService, measured through KServe's Service."""

from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    FieldLimit,
    RuntimeDescriptor,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.runtimes.launched import LAUNCHED_REFUSALS, starts_without_tls
from inferometer_api.runtimes.onnxruntime import ONNX_RUNTIME, own_command, own_image
from inferometer_api.spec.run import BenchmarkRun

_CONTAINER = "kserve-container"
"""KServe serves a model with the container of this name."""


def _containers(run: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
    image = own_image(run.spec.server)
    return (ServerContainer(name=_CONTAINER, image=image, command=own_command(run, start)),)


KSERVE = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=lambda _: FetchedLayout(model_file="model.onnx", takes_any_path=True),
        containers=_containers,
        fetcher_image=own_image,
        ready_path="/v2/health/ready",
        stop_seconds=5,
        local=None,
        by_kserve=True,
    ),
    limits=(
        *ONNX_RUNTIME.limits,
        # Behind one Service, the load generator cannot share requests evenly.
        FieldLimit("spec.server.replicas", lambda server: server.replicas, (1,)),
    ),
    refusals=LAUNCHED_REFUSALS,
    without_tls=starts_without_tls,
    restart_identity=ONNX_RUNTIME.restart_identity,
    varying_settings=ONNX_RUNTIME.varying_settings,
)
