"""OnnxRuntime: the server of this project, which runs a model with ONNX Runtime."""

from inferometer_api.metrics.definitions import run_labels
from inferometer_api.runtimes.descriptor import (
    FetchedLayout,
    FieldLimit,
    ImageName,
    LocalSupport,
    RuntimeDescriptor,
    ServerContainer,
    ServerLaunch,
    ServerStart,
)
from inferometer_api.runtimes.launch_refusals import LAUNCHED_REFUSALS, starts_without_tls
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.server import Batching, OnnxRuntimeOptions, Placement, Server


def own_image(server: Server) -> ImageName:
    """Return the image of the project's server for a device."""
    return "servingGpu" if server.device == "GPU" else "serving"


def _containers(run: BenchmarkRun, start: ServerStart) -> tuple[ServerContainer, ...]:
    return (ServerContainer(image=own_image(run.spec.server), command=own_command(run, start)),)


def own_command(run: BenchmarkRun, start: ServerStart) -> tuple[str, ...]:
    """Return the command line of the project's server, for any of its engines."""
    server, listen = run.spec.server, start.listen
    namespace, name = run_labels(run)
    batch_sizes = ",".join(map(str, run.spec.request_batch_sizes))
    return (
        start.python,
        *("-m", "inferometer_serving"),
        *("--model", start.layout.model_path),
        *("--model-name", run.spec.model.served_name),
        *("--engine", "openvino" if server.runtime == "OpenVino" else "onnxruntime"),
        *("--device", server.device),
        *("--precision", server.precision),
        *("--threads", str(server.threads)),
        *("--instances", str(server.instances)),
        *_batching(server.batching),
        *_choices(server.onnx_runtime),
        *("--host", listen.host),
        *("--http-port", str(listen.http_port)),
        *("--grpc-port", str(listen.grpc_port)),
        *("--warm-up-batch-sizes", batch_sizes),
        *_option("--warm-up-inputs", start.inputs_file),
        *(("--profiling", "on") if _is_profiled(run) else ()),
        *(("--start-up-report", "on") if run.spec.starts_cold else ()),
        # For the labels of its metrics.
        *_option("--run", name),
        *_option("--run-namespace", namespace),
        *(f"--other-model={name}={path}" for name, path in start.other_models.items()),
        *_option("--max-model-bytes", start.max_model_bytes),
        *_option("--checksums", start.checksums_file),
        *_option("--manifest", start.manifest_file),
        *(("--allow-python-steps", "on") if start.allow_python_steps else ()),
        *_warm_up_shapes(run, start),
    )


def _is_profiled(run: BenchmarkRun) -> bool:
    return any(each.load_profile.is_measured_in_server for each in run.spec.scenarios)


def _batching(batching: Batching | None) -> tuple[str, ...]:
    if batching is None:
        return ()
    return (
        *("--max-batch-size", str(batching.max_batch_size)),
        *("--max-delay-microseconds", str(batching.max_delay_microseconds)),
    )


def _choices(options: OnnxRuntimeOptions | None) -> tuple[str, ...]:
    """Return the options for the choices that are made; the server has defaults of its own."""
    if options is None:
        return ()
    made = options.model_dump(exclude_none=True, by_alias=False)
    words = {True: "on", False: "off"}
    return tuple(
        word
        for name, value in made.items()
        for word in (
            f"--{name.replace('_', '-')}",
            words[value] if isinstance(value, bool) else str(value),
        )
    )


def _warm_up_shapes(run: BenchmarkRun, start: ServerStart) -> tuple[str, ...]:
    random = run.spec.load.inputs.random
    shapes = start.shapes
    if shapes is None:
        shapes = random.shapes if random is not None else {}
    # One word each: a name may begin with a hyphen, and must not be taken for an option.
    return tuple(
        f"--warm-up-shape={name}={','.join(map(str, shape))}"
        for name, shape in shapes.items()
        if shape  # a scalar has no axis to give
    )


def _option(flag: str, value: str | int | None) -> tuple[str, ...]:
    return () if value is None else (flag, str(value))


def own_local_notes(server: Server) -> tuple[str, ...]:
    """Return the settings of the project's server that a local run does not enforce."""
    resources = server.resources
    requested = f"cpu {resources.cpu}, memory {resources.memory}"
    notes = [
        (
            f"spec.server.resources ({requested}) is not enforced in a local run; only the default "
            "of threads comes from it."
        )
    ]
    if server.placement != Placement():
        notes.append(
            "spec.server.placement is not used in a local run: the server runs on this machine."
        )
    if server.gpu is not None and server.gpu.resource != "nvidia.com/gpu":
        notes.append(
            f"spec.server.gpu.resource ({server.gpu.resource}) is not used in a local run: the "
            "server takes the first GPU that CUDA shows it."
        )
    return tuple(notes)


ONNX_RUNTIME = RuntimeDescriptor(
    launch=ServerLaunch(
        layout=lambda _: FetchedLayout(model_file="model.onnx", takes_any_path=True),
        containers=_containers,
        # The server's own image, so that a node pulls only one.
        fetcher_image=own_image,
        engine=lambda _: "onnxruntime",
        ready_path="/v2/health/ready",
        stop_seconds=5,
        local=LocalSupport(
            program="ONNX Runtime",
            python_package="onnxruntime",
            installation="inferometer[cpu], or inferometer[gpu] on a machine with an NVIDIA GPU",
            announces_ports=True,
            notes=own_local_notes,
        ),
    ),
    limits=(
        FieldLimit(
            path="spec.server.gpu.count",
            value=lambda server: 1 if server.gpu is None else server.gpu.count,
            supported=(1,),
        ),
    ),
    refusals=LAUNCHED_REFUSALS,
    holds_several_models=True,
    runs_steps=True,
    times_layers=True,
    reports_spans=True,
    without_tls=starts_without_tls,
    # In a container every process has the same number: it counts only without an instance_id.
    restart_identity=("instance_id", "process_id"),
    varying_settings=("load_seconds", "warm_up_seconds"),
)
