"""Triton: NVIDIA's server, with a model repository that is generated from the spec."""

import json
from collections.abc import Iterator, Mapping

from inferometer_api.runtimes.descriptor import (
    INSTANCE_ID,
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
from inferometer_api.spec.server import Server, TritonBackend

_BACKENDS: Mapping[TritonBackend, str] = {
    "OnnxRuntime": "onnxruntime",
    "OpenVino": "openvino",
    "Python": "python",
}
_ENGINES: Mapping[TritonBackend, str] = {
    "OnnxRuntime": "onnxruntime",
    "OpenVino": "openvino",
    "Python": "onnxruntime",
}
"""What each back end runs the model with."""
_THREADS: Mapping[TritonBackend, str] = {
    "OnnxRuntime": "intra_op_thread_count",
    "OpenVino": "INFERENCE_NUM_THREADS",
    "Python": "threads",
}
"""The parameter of each back end that has the threads per inference."""


def _backend(server: Server) -> TritonBackend:
    return server.triton_backend or "OnnxRuntime"


def _layout(run: BenchmarkRun) -> FetchedLayout:
    name, server = run.spec.model.served_name, run.spec.server
    is_program = _backend(server) == "Python"
    return FetchedLayout(
        root="repository",
        model_file=f"{name}/1/model.onnx",
        files={f"{name}/config.pbtxt": triton_config(name, server)},
        programs={f"{name}/1/model.py": "triton_model"} if is_program else {},
    )


def triton_config(name: str, server: Server) -> str:
    """Return a model's config.pbtxt; Triton adds the tensors, which it reads from the model."""
    backend, batching = _backend(server), server.batching
    kind = "KIND_GPU" if server.device == "GPU" else "KIND_CPU"
    parameters = {
        "inferometer.instance_id": INSTANCE_ID,
        "inferometer.runtime": _ENGINES[backend],
        _THREADS[backend]: str(server.threads),
    }
    lines = [
        f"name: {json.dumps(name)}",
        f'backend: "{_BACKENDS[backend]}"',
        f"max_batch_size: {0 if batching is None else batching.max_batch_size}",
        f"instance_group [{{ kind: {kind} count: {server.instances} }}]",
        *(
            f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}'
            for key, value in parameters.items()
        ),
    ]
    if batching is not None:
        delay = batching.max_delay_microseconds
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {delay} }}")
    return "\n".join(lines) + "\n"


def _containers(_: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
    listen = start.listen
    command = (
        "tritonserver",
        f"--model-repository={start.layout.root}",
        f"--http-address={listen.host}",
        f"--http-port={listen.http_port}",
        f"--grpc-address={listen.host}",
        f"--grpc-port={listen.grpc_port}",
        f"--metrics-address={listen.host}",
        f"--metrics-port={listen.metrics_port}",
        # Without batching in the spec, Triton would join up to four requests.
        "--backend-config=default-max-batch-size=0",
        *(_trace_options(start.spans_url) if start.spans_url else ()),
    )
    return (ServerContainer(image="triton", command=command),)


def _trace_options(spans_url: str) -> Iterator[str]:
    """Yield what makes Triton trace the queries that carry a traceparent, and no others."""
    for setting in (
        *("mode=opentelemetry", "level=TIMESTAMPS", "rate=0", "count=-1"),
        f"opentelemetry,url={spans_url}",
    ):
        yield f"--trace-config={setting}"


def _on_gpu(server: Server) -> str | None:
    backend = _backend(server)
    if server.device == "CPU" or backend == "OnnxRuntime":
        return None
    return f"{backend} runs on CPUs only here; use OnnxRuntime, or set device to CPU"


TRITON = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=_layout,
        containers=_containers,
        fetcher_image=lambda _: "serving",
        engine=lambda server: _ENGINES[_backend(server)],
        # Packages of Python are none of the back ends' libraries.
        engines_in=lambda server: "tritonPython" if _backend(server) == "Python" else "triton",
        images={"triton": "nvcr.io/nvidia/tritonserver:24.10-py3"},
        metrics_port=8002,
        ready_path="/v2/health/ready",
        stop_seconds=30,
        local=LocalSupport(
            program="Triton",
            executable="tritonserver",
            installation="it so that tritonserver is on the search path: docs/how-to/triton.md",
            notes=own_local_notes,
        ),
    ),
    limits=(FieldLimit("spec.server.precision", lambda server: server.precision, ("Default",)),),
    refusals=(*LAUNCHED_REFUSALS, Refusal("spec.server.tritonBackend", None, _on_gpu)),
    without_tls=starts_without_tls,
    restart_identity=("instance_id",),
)
