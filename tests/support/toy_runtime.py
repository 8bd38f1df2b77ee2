"""A runtime that is one module and one row: what a new runtime may need, in a descriptor."""

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
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Runtime, Server

NAME: Runtime = "MLServer"
"""The value of `spec.server.runtime` that gets the toy's row."""


def _layout(run: BenchmarkRun) -> FetchedLayout:
    name = run.spec.model.served_name
    return FetchedLayout(
        root="repository",
        model_file=f"{name}/1/model.onnx",
        files={f"{name}/config.pbtxt": f'name: "{name}"\nmax_batch_size: 8'},
    )


def _containers(_: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
    listen = start.listen
    command = (
        "toyserver",
        *("--repository", start.layout.root),
        *("--address", listen.host),
        *("--http", str(listen.http_port)),
        *("--grpc", str(listen.grpc_port)),
        *("--metrics", str(listen.metrics_port)),
    )
    return (ServerContainer(image="toy", command=command, env={"TOY": "1"}),)


def _instances(server: Server) -> str | None:
    return None if server.instances == 1 else "the toy has one instance; leave it out"


TOY = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=_layout,
        containers=_containers,
        fetcher_image=lambda _: "serving",
        images={"toy": "registry.example.com/toy:1.0"},
        engine=lambda _: None,
        http_port=9000,
        grpc_port=9001,
        metrics_port=9002,
        ready_path="/ready",
        stop_seconds=7,
        local=LocalSupport(
            program="Toy server", executable="toyserver", installation="it from toy.example.com"
        ),
    ),
    limits=(FieldLimit("spec.server.device", lambda server: server.device, ("CPU",)),),
    refusals=(*LAUNCHED_REFUSALS, Refusal("spec.server.instances", None, _instances)),
    without_tls=starts_without_tls,
    restart_identity=(),
    varying_settings=("toy_started_at",),
)
