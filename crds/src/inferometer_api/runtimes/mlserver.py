"""MLServer: Seldon's server, with settings that are generated from the spec and a model class."""

import json
from typing import Any

from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    FieldLimit,
    LocalSupport,
    Refusal,
    RuntimeDescriptor,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.runtimes.launch_refusals import LAUNCHED_REFUSALS, starts_without_tls
from inferometer_api.runtimes.onnxruntime import own_local_notes
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Server

_PROGRAM = "inferometer_model"


def _layout(run: BenchmarkRun) -> FetchedLayout:
    name = run.spec.model.served_name
    settings = json.dumps(mlserver_settings(name, run.spec.server), indent=2)
    return FetchedLayout(
        root="models",
        model_file=f"{name}/model.onnx",
        files={f"{name}/model-settings.json": settings},
        programs={f"{name}/{_PROGRAM}.py": "mlserver_model"},
    )


def mlserver_settings(name: str, server: Server) -> dict[str, Any]:
    """Return a model's model-settings.json."""
    settings: dict[str, Any] = {
        "name": name,
        "implementation": f"{_PROGRAM}.OnnxModel",
        "parameters": {"uri": "./model.onnx", "extra": {"threads": server.threads}},
    }
    batching = server.batching
    if batching is not None:
        settings["max_batch_size"] = batching.max_batch_size
        settings["max_batch_time"] = batching.max_delay_microseconds / 1e6
    return settings


def _containers(run: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
    server, listen = run.spec.server, start.listen
    # The counters of the model class are those of one process, and count joined requests once.
    is_counted = server.instances == 1 and server.batching is None
    scratch = f"/tmp/inferometer-mlserver-{listen.metrics_port}"  # noqa: S108 - no secrets
    environment = {
        "MLSERVER_HOST": listen.host,
        "MLSERVER_HTTP_PORT": str(listen.http_port),
        "MLSERVER_GRPC_PORT": str(listen.grpc_port),
        "MLSERVER_METRICS_PORT": str(listen.metrics_port),
        "MLSERVER_METRICS_DIR": scratch,
        # Its default is below the working directory, which is read-only in a pod.
        "MLSERVER_ENVIRONMENTS_DIR": f"{scratch}/environments",
        # Each instance but a single one has a process of its own.
        "MLSERVER_PARALLEL_WORKERS": str(0 if server.instances == 1 else server.instances),
        "MLSERVER_EXTENSIONS": json.dumps(["statistics"] if is_counted else []),
        "MLSERVER_DEBUG": "false",
    }
    command = ("mlserver", "start", start.layout.root)
    return (ServerContainer(image="mlserver", command=command, env=environment),)


def _batching(server: Server) -> str | None:
    if server.batching is None or server.batching.max_delay_microseconds > 0:
        return None
    return "MLServer joins only requests that may wait; set it to 1 or more"


MLSERVER = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=_layout,
        containers=_containers,
        fetcher_image=lambda _: "serving",
        engine=lambda _: "onnxruntime",
        images={"mlserver": "inferometer-mlserver"},
        metrics_port=8002,
        # The server itself is also ready while it has no model, as after one that failed.
        ready_path="/v2/models/{modelName}/ready",
        stop_seconds=30,
        local=LocalSupport(
            program="MLServer",
            executable="mlserver",
            installation="mlserver and onnxruntime into one environment whose mlserver is on the "
            "search path: docs/how-to/mlserver.md",
            notes=own_local_notes,
        ),
    ),
    limits=(
        FieldLimit("spec.server.device", lambda server: server.device, ("CPU",)),
        FieldLimit("spec.server.precision", lambda server: server.precision, ("Default",)),
    ),
    refusals=(
        *LAUNCHED_REFUSALS,
        Refusal("spec.server.batching.maxDelayMicroseconds", None, _batching),
    ),
    without_tls=starts_without_tls,
    # Over HTTP only: the model class has no page over gRPC.
    restart_identity=("instance_id",),
)
