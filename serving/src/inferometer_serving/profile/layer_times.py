"""What an engine's profiler reports: layers, and how long each took in each run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from inferometer_serving.infer.tensors import Array

_MOST_DURATIONS = 60_000
"""A profile keeps at most so many: those of a large graph are of fewer runs."""
_FEWEST_RUNS = 5


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """One layer; times are in ns."""

    index: int
    name: str
    operator: str
    shape: tuple[int, ...]
    datatype: str
    provider: str
    kernel: str
    output_bytes: int | None
    start_ns: int
    """From the start of the inference, in the last run."""
    durations_ns: tuple[int, ...]
    outer: int | None = None
    """The index of the loop or branch that it runs within."""

    def to_json(self) -> dict[str, Any]:
        """Return the members of the profile's document."""
        members: dict[str, Any] = {
            "index": self.index,
            "name": self.name,
            "operator": self.operator,
            "shape": list(self.shape),
            "datatype": self.datatype,
            "provider": self.provider,
            "kernel": self.kernel,
            "startNanoseconds": self.start_ns,
            "durationsNanoseconds": list(self.durations_ns),
        }
        if self.output_bytes is not None:
            members["outputBytes"] = self.output_bytes
        if self.outer is not None:
            members["outer"] = self.outer
        return members


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """The layers of some runs, and what the profiler cannot say."""

    layers: tuple[LayerTimes, ...]
    notes: tuple[str, ...] = ()
    kernels_missing: str = ""
    """Why there are no names of kernels; empty if there are."""


class ProfiledSession(Protocol):
    """A session with the engine's profiler switched on."""

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> None:
        """Infer once."""

    def finish(self, runs: int) -> EngineProfile:
        """End profiling, and return the layers of the last `runs` runs."""


def thinned(profile: EngineProfile) -> EngineProfile:
    """Return a profile of as many runs as a document may hold."""
    runs = max((len(each.durations_ns) for each in profile.layers), default=0)
    most = max(_FEWEST_RUNS, _MOST_DURATIONS // max(1, len(profile.layers)))
    if runs <= most:
        return profile
    kept = _spread(runs, most)
    layers = tuple(
        replace(each, durations_ns=tuple(each.durations_ns[at] for at in kept))
        for each in profile.layers
    )
    note = (
        f"The layers' durations are kept for {most} of {runs} runs, because there are "
        f"{len(layers)} layers."
    )
    return replace(profile, layers=layers, notes=(*profile.notes, note))


def _spread(count: int, wanted: int) -> Sequence[int]:
    return [at * count // wanted for at in range(wanted)]
