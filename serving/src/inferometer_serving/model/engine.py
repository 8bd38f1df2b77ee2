"""How does a loaded model compute, and how long may the event loop wait for it?"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from inferometer_serving.errors import (
    ModelRefusedError,
    Refusal,
    RequestRefusedError,
)
from inferometer_serving.infer.signature import Shape
from inferometer_serving.infer.tensors import Array
from inferometer_serving.metrics import Metrics
from inferometer_serving.model.graph_file import read_graph
from inferometer_serving.model.samples import array_shapes, sample_shapes
from inferometer_serving.model.session import Interrupt, Session, open_session
from inferometer_serving.model.warm_up import warm_up_inputs
from inferometer_serving.options import ServeOptions

_TINY_SECONDS = 0.0003
"""A hop to a thread and back costs some 0.1 ms; an inference this short is run in the loop."""
_WARM_RUNS = 2
"""The first inference of a shape allocates; the second shows what one takes."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A session and the facts about it that a measurement must tell."""

    session: Session
    sha256: str
    external_sha256: dict[str, str]
    load_seconds: float


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What the warm-up found."""

    batch_sizes: tuple[int, ...]
    seconds: float
    inline_body_bytes: int
    """Requests up to this size are computed in the event loop; 0 where all go to the thread."""


class Engine:
    """Runs one inference at a time and measures it."""

    def __init__(self, model_name: str, model: LoadedModel, metrics: Metrics) -> None:
        self.model_name = model_name
        self.model = model
        self.signature = model.session.signature
        self._run = model.session.runner.run
        self._compute_seconds = metrics.compute_seconds
        self._batches = metrics.batches
        batched = [each.name for each in self.signature.inputs if each.has_open_batch]
        self._batched = batched[0] if batched else None

    def infer(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the outputs in the order of their names.

        Raises RequestRefusedError where the model cannot compute these inputs.
        """
        started = perf_counter()
        try:
            results = self._run(output_names, inputs)
        except Exception as error:
            raise _failure(error) from error
        self._compute_seconds.observe(perf_counter() - started)
        self._batches[1 if self._batched is None else len(inputs[self._batched])] += 1
        return results


def load(options: ServeOptions, interrupt: Interrupt) -> LoadedModel:
    """Check and open the model that was asked for. Raises ModelRefusedError."""
    started = perf_counter()
    graph = read_graph(options.model, max_bytes=options.max_model_bytes)
    session = open_session(
        graph, device=options.device, threads=options.threads, interrupt=interrupt
    )
    return LoadedModel(session, graph.sha256, graph.external_sha256, perf_counter() - started)


def warm_up(model: LoadedModel, options: ServeOptions) -> WarmUp:
    """Run the model for every batch size asked. Raises ModelRefusedError where it cannot."""
    started = perf_counter()
    names = [each.name for each in model.session.signature.outputs]
    samples = {} if options.warm_up_inputs is None else array_shapes(options.warm_up_inputs)
    longest_seconds, largest_bytes = 0.0, 0
    for batch_size in options.warm_up_batch_sizes:
        shapes = sample_shapes(model.session.signature, batch_size, samples)
        shapes.update(options.warm_up_shapes)
        inputs = warm_up_inputs(model.session.signature, batch_size, shapes)
        longest_seconds = max(longest_seconds, _run_warm(model, names, inputs))
        largest_bytes = max(largest_bytes, sum(each.nbytes for each in inputs.values()))
    is_tiny = longest_seconds < _TINY_SECONDS and not model.session.work_depends_on_values
    return WarmUp(
        batch_sizes=options.warm_up_batch_sizes,
        seconds=perf_counter() - started,
        # twice the bytes that were tried, and room for the JSON that describes them
        inline_body_bytes=2 * largest_bytes + 1024 if is_tiny else 0,
    )


def _run_warm(model: LoadedModel, names: Sequence[str], inputs: dict[str, Array]) -> float:
    shapes: dict[str, Shape] = {name: array.shape for name, array in inputs.items()}
    seconds = 0.0
    for _ in range(_WARM_RUNS):
        started = perf_counter()
        try:
            model.session.runner.run(list(names), inputs)
        except Exception as error:
            listed = ", ".join(f"'{name}' {list(shape)}" for name, shape in shapes.items())
            raise ModelRefusedError(
                f"The model cannot compute its warm-up with {listed}: {_reason(error)} Give shapes "
                "that it takes with --warm-up-shape."
            ) from error
        seconds = perf_counter() - started
    return seconds


def _failure(error: Exception) -> RequestRefusedError:
    refusal = Refusal.INVALID if type(error).__name__ == "InvalidArgument" else Refusal.FAILED
    return RequestRefusedError(
        refusal, f"The model could not compute this request: {_reason(error)}"
    )


def _reason(error: Exception) -> str:
    """Return ONNX Runtime's words without its codes, as a sentence."""
    words = " ".join(str(error).partition("] : ")[2].split()) or repr(error)
    return words[:400].rstrip(".") + "."
