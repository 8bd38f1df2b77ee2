"""Prepares a model for serving: checks it, opens it for each instance, and warms it up."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.batching.joining import check_joinable
from inferometer_serving.infer.signature import Shape, Signature
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.engines import import_engine, open_session
from inferometer_serving.model.samples import array_shapes, sample_shapes
from inferometer_serving.model.session import EngineSettings, Interrupt, Session, reason_of
from inferometer_serving.model.warm_up import warm_up_inputs
from inferometer_serving.options import ServeOptions
from inferometer_serving.start_up import StartUp

_TINY_SECONDS = 0.0003
"""A hop to a thread and back costs some 0.1 ms; an inference this short is run in the loop."""
_WARM_RUNS = 2
"""The first inference of a shape allocates; the second shows what one takes."""
_LARGEST_WARM_JOINED = 64
"""Larger joined batches are left to be warmed by the first of them."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The sessions of a model, one for each instance, and facts for the result."""

    sessions: tuple[Session, ...]
    sha256: str
    external_sha256: dict[str, str]
    load_seconds: float
    steps: tuple[str, ...] = ()
    """The names of the steps around the model; empty: the model is run alone."""
    manifest_sha256: str = ""
    """The checksum of the manifest with these steps."""

    @property
    def session(self) -> Session:
        """Return the first: all of them are alike."""
        return self.sessions[0]

    def unload(self) -> None:
        """Let every session go."""
        for session in self.sessions:
            session.unload()


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What the warm-up found."""

    batch_sizes: tuple[int, ...]
    seconds: float
    inline_body_bytes: int
    """Requests up to this size are computed in the event loop; 0 where all go to a thread."""


def load(options: ServeOptions, interrupt: Interrupt, start_up: StartUp) -> LoadedModel:
    """Check and open the model. Raises ModelRefusedError."""
    started = perf_counter()
    known = {} if options.checksums is None else json.loads(options.checksums.read_bytes())
    graph = read_graph(options.model, max_bytes=options.max_model_bytes, known_sha256=known)
    start_up.end("modelRead", size_bytes=graph.size_bytes)
    import_engine(options.engine)
    start_up.end("engineImported")
    settings = EngineSettings(
        options.device,
        options.threads,
        options.precision,
        options.start_up_report,
        onnx_runtime=options.onnx_runtime,
        weight_broker=options.weight_broker,
    )
    sessions = tuple(
        open_session(options.engine, graph, settings, interrupt) for _ in range(options.instances)
    )
    start_up.end("sessionCreated", parts=sessions[0].opening_microseconds)
    if options.max_batch_size:
        check_joinable(sessions[0].signature)
    return LoadedModel(sessions, graph.sha256, graph.external_sha256, perf_counter() - started)


def warm_up(model: LoadedModel, options: ServeOptions) -> WarmUp:
    """Run every instance for every requested batch size. Raises ModelRefusedError if it cannot."""
    started = perf_counter()
    longest_seconds, largest_bytes = 0.0, 0
    batch_sizes = _batch_sizes(options)
    for batch_size in batch_sizes:
        shapes = warm_shapes(model.session.signature, options, batch_size)
        inputs = warm_up_inputs(model.session.signature, batch_size, shapes)
        rows = batch_size if options.max_batch_size else None
        for session in model.sessions:
            longest_seconds = max(longest_seconds, _run_warm(session, inputs, rows))
        largest_bytes = max(largest_bytes, sum(each.nbytes for each in inputs.values()))
    is_tiny = longest_seconds < _TINY_SECONDS and not model.session.work_depends_on_values
    is_inline = is_tiny and options.instances == 1 and not options.max_batch_size
    return WarmUp(
        batch_sizes=batch_sizes,
        seconds=perf_counter() - started,
        # twice the bytes that were tried, and room for the JSON that describes them
        inline_body_bytes=2 * largest_bytes + 1024 if is_inline else 0,
    )


def warm_shapes(signature: Signature, options: ServeOptions, batch_size: int) -> dict[str, Shape]:
    """Return the shapes that are known of inputs with open axes. Raises ModelRefusedError."""
    samples = {} if options.warm_up_inputs is None else array_shapes(options.warm_up_inputs)
    shapes = sample_shapes(signature, batch_size, samples)
    shapes.update(options.warm_up_shapes)
    return shapes


def _batch_sizes(options: ServeOptions) -> tuple[int, ...]:
    sizes, most = options.warm_up_batch_sizes, options.max_batch_size
    if not most:
        return sizes
    if max(sizes) > most:
        raise ModelRefusedError(
            f"A warm-up with {max(sizes)} samples was requested, but requests may have {most} at "
            "most (--max-batch-size): ask for smaller ones, or allow larger batches."
        )
    return tuple(dict.fromkeys((*sizes, min(most, _LARGEST_WARM_JOINED))))


def _run_warm(session: Session, inputs: dict[str, Array], rows: int | None) -> float:
    names = [each.name for each in session.signature.outputs]
    seconds = 0.0
    for _ in range(_WARM_RUNS):
        started = perf_counter()
        try:
            results = session.runner.run(names, inputs)
        except Exception as error:
            shapes: dict[str, Shape] = {name: array.shape for name, array in inputs.items()}
            listed = ", ".join(f"'{name}' {list(shape)}" for name, shape in shapes.items())
            raise ModelRefusedError(
                f"The model cannot compute its warm-up with {listed}: {reason_of(error)} Give "
                "shapes that it takes with --warm-up-shape."
            ) from error
        seconds = perf_counter() - started
    if rows is not None:
        _check_rows(names, results, rows)
    return seconds


def _check_rows(names: Sequence[str], results: Sequence[Array], rows: int) -> None:
    for name, result in zip(names, results, strict=True):
        if len(result) != rows:
            raise ModelRefusedError(
                f"Dynamic batching is enabled, but of {rows} samples the model makes an output "
                f"'{name}' of shape {list(result.shape)}: its first axis does not count samples, "
                "so results of joined requests cannot be separated. Leave batching out "
                "(--max-batch-size)."
            )
