"""Custom: a server that the cluster's admin describes, and that an author names only."""

import re
from typing import Annotated

from pydantic import Field, StringConstraints

from inferometer_api.document import Document, Integral
from inferometer_api.runtimes.descriptor import (
    GRPC_PORT,
    HTTP_PORT,
    FetchedLayout,
    RuntimeDescriptor,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.runtimes.launch_refusals import LAUNCHED_REFUSALS, starts_without_tls
from inferometer_api.spec.run import BenchmarkRun

_Port = Annotated[int, Field(ge=1024, le=65535), Integral]
_Word = Annotated[str, StringConstraints(max_length=1024)]
_Path = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9{][A-Za-z0-9{}_./-]*$")]


class AllowedServer(Document):
    """A server of the admin's that runs may name.

    Texts may hold {modelName}, {modelPath}, {modelFolder}, {threads}, {instances}, {httpPort},
    {grpcPort} and {metricsPort}.
    """

    image: Annotated[str, StringConstraints(pattern=r"^[^\s@]+@sha256:[0-9a-f]{64}$")]
    """The image, by its digest."""
    command: list[_Word] = Field(default_factory=list, max_length=64)
    """Absent: the image's own."""
    arguments: list[_Word] = Field(default_factory=list, max_length=64)
    env: dict[str, _Word] = Field(default_factory=dict, max_length=64)
    model_file: _Path = "model.onnx"
    """Where the fetcher writes the model, below {modelFolder}: "{modelName}/1/model.onnx"."""
    http_port: _Port = HTTP_PORT
    grpc_port: _Port = GRPC_PORT
    metrics_port: _Port | None = None
    """Absent: the HTTP port."""
    ready_path: Annotated[str, StringConstraints(pattern="^/")] = "/v2/health/ready"
    """HTTP path that answers 200 once the model is ready."""
    stop_seconds: Annotated[int, Field(ge=0, le=600), Integral] = 30


def custom_launch(server: AllowedServer) -> ServerLaunch:
    """Return how the operator starts a server of the admin's."""

    def layout(run: BenchmarkRun) -> FetchedLayout:
        name = run.spec.model.served_name
        return FetchedLayout(model_file=server.model_file.replace("{modelName}", name))

    def containers(run: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
        values = _values(run, start)
        return (
            ServerContainer(
                image="custom",
                command=tuple(_filled(word, values) for word in server.command),
                arguments=tuple(_filled(word, values) for word in server.arguments),
                env={name: _filled(text, values) for name, text in server.env.items()},
            ),
        )

    return ServerLaunch(
        layout=layout,
        containers=containers,
        fetcher_image=lambda _: "serving",
        images={"custom": server.image},
        engine=lambda _: None,
        http_port=server.http_port,
        grpc_port=server.grpc_port,
        metrics_port=server.metrics_port,
        ready_path=server.ready_path,
        stop_seconds=server.stop_seconds,
        local=None,
    )


def _values(run: BenchmarkRun, start: ServerStart) -> dict[str, str]:
    server, listen = run.spec.server, start.listen
    return {
        "modelName": run.spec.model.served_name,
        "modelPath": start.layout.model_path,
        "modelFolder": start.layout.root,
        "threads": str(server.threads),
        "instances": str(server.instances),
        "httpPort": str(listen.http_port),
        "grpcPort": str(listen.grpc_port),
        "metricsPort": str(listen.metrics_port),
    }


def _filled(text: str, values: dict[str, str]) -> str:
    """Return a text with its placeholders replaced, in one pass: a name may look like another."""
    return re.sub(r"\{([A-Za-z]+)\}", lambda found: values.get(found[1], found[0]), text)


_NOT_STARTED = AllowedServer(image="none@sha256:" + "0" * 64)

CUSTOM = RuntimeDescriptor(
    # The operator's settings have the ports, image and arguments of the server that a run names.
    launch=custom_launch(_NOT_STARTED),
    refusals=LAUNCHED_REFUSALS,
    without_tls=starts_without_tls,
    restart_identity=("instance_id", "process_id"),
)
