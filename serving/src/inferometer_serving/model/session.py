"""The session that an engine makes of a model: it predicts until it is unloaded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inferometer_serving.infer.signature import Signature
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.placement import GraphPlacement
from inferometer_serving.model.precision import NO_LAYERS, LayerPrecisions
from inferometer_serving.options import Device, OnnxRuntimeChoices, Precision


class Runner(Protocol):
    """Runs one inference at a time."""

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the outputs in the order of their names."""


@dataclass(slots=True)
class StepsOfRun:
    """The steps around one run of the model; times are nanoseconds of the monotonic clock."""

    spans: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, begin and end of each, in their order."""
    model_began_ns: int = 0
    model_ended_ns: int = 0
    failed: str = ""
    """The step that failed; empty if none did."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How an engine is to compute."""

    device: Device = Device.CPU
    threads: int = 1
    precision: Precision = Precision.DEFAULT
    times_opening: bool = False
    """Whether to measure the parts of opening a model, if the engine can."""
    onnx_runtime: OnnxRuntimeChoices = field(default_factory=OnnxRuntimeChoices)
    weight_broker: Path | None = None
    """The folder with the sockets of the brokers that share weights in GPU memory."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Session:
    """A model that an engine has loaded: `runner` predicts, `unload` lets it go."""

    runner: Runner
    signature: Signature
    providers: tuple[str, ...]
    placement: GraphPlacement
    work_depends_on_values: bool
    """How long an inference takes is then not known from its shapes."""
    runtime_version: str
    threads: int = 1
    """The threads that the engine has, which may be fewer than requested."""
    precisions: LayerPrecisions = NO_LAYERS
    """What the layers compute in, read back from the engine."""
    opening_microseconds: Mapping[str, int] = field(default_factory=dict)
    """Parts of opening the model, by name: parse and initialise."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the engine, read back from it."""
    unload: Callable[[], None] = _nothing
    last_steps: Callable[[], StepsOfRun] | None = None
    """Returns the steps around the run that ended last; None: the model is run alone."""


class Interrupt:
    """Lets another thread end the loading of a model, or the inference now running."""

    def __init__(self) -> None:
        self._is_set = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        """Whether the server ends."""
        return self._is_set

    def add(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the interrupt is set; at once if it is."""
        self._callbacks.append(callback)
        if self._is_set:
            callback()

    def remove(self, callback: Callable[[], None]) -> None:
        """Forget a callback."""
        self._callbacks.remove(callback)

    def set(self) -> None:
        """Make the call into an engine that is under way, and every later one, fail."""
        self._is_set = True
        for callback in tuple(self._callbacks):
            callback()


def reason_of(error: Exception) -> str:
    """Return an engine's words without its codes and source lines, as a sentence."""
    text = str(error)
    words = text.partition("] : ")[2]
    if not words:
        lines = [each.strip() for each in text.splitlines()]
        words = " ".join(each for each in lines if each and not _is_source_line(each))
    return (" ".join(words.split()) or repr(error))[:400].rstrip(".") + "."


def _is_source_line(line: str) -> bool:
    return line.startswith(("Exception from src", "Check '", "While validating node"))
