"""Reads an engine's profiler: layers, and how long each took in each run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from inferometer_serving.infer.tensors import Array
from inferometer_serving.profile.gpu_activities import KernelTimes
from inferometer_serving.profile.occupancy import GpuPeaks

_MOST_DURATIONS = 60_000
"""A profile keeps at most so many: those of a large graph are of fewer runs."""
_FEWEST_RUNS = 5

T = TypeVar("T", "LayerTimes", KernelTimes)


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
    inputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Type and shape of each, if the engine reports them."""
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def to_json(self, *, with_tensors: bool = False) -> dict[str, Any]:
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
        for name, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            if with_tensors and tensors:
                members[name] = [
                    {"datatype": datatype, "shape": list(shape)} for datatype, shape in tensors
                ]
        return members


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """The layers of some runs, and what the profiler cannot say."""

    layers: tuple[LayerTimes, ...]
    notes: tuple[str, ...] = ()
    kernels_missing: str = ""
    """Why there are no names of kernels; empty if there are."""
    kernels: tuple[KernelTimes, ...] = ()
    """The activities of a GPU; empty if its profiler was not active."""
    gpu: GpuPeaks | None = None


class ProfiledSession(Protocol):
    """A session with the engine's profiler switched on."""

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> int | None:
        """Infer once; return how many ns it took, or None if the caller is to time it."""

    def finish(self, runs: int) -> EngineProfile:
        """End profiling, and return the layers of the last `runs` runs."""

    def close(self) -> None:
        """Let go of what the session holds; at once if it has not finished."""


def identity(layer: LayerTimes) -> tuple[str, str]:
    """Return what a layer has in common in all sessions of a model."""
    return layer.name, layer.operator


def merged(profiles: Sequence[EngineProfile]) -> EngineProfile:
    """Return the last profile with the durations of all, in their order.

    Profiles with other layers than the last are left out, which a note says.
    """
    last = profiles[-1]
    names = [identity(each) for each in last.layers]
    equal = [each for each in profiles if [identity(layer) for layer in each.layers] == names]
    layers = tuple(
        replace(
            last.layers[at],
            durations_ns=tuple(
                took_ns for each in equal for took_ns in each.layers[at].durations_ns
            ),
        )
        for at in range(len(names))
    )
    notes = last.notes
    if len(equal) < len(profiles):
        other = len(profiles) - len(equal)
        notes = (*notes, f"{other} of {len(profiles)} sessions had other layers and are left out.")
    return replace(last, layers=layers, notes=notes)


def thinned(profile: EngineProfile) -> EngineProfile:
    """Return a profile of as many runs as a document may hold."""
    found, notes = profile, profile.notes
    layers, kept = _of_fewer_runs(profile.layers)
    if kept is not None:
        notes = (*notes, _thinned_note("layers", *kept, len(layers)))
        found = replace(found, layers=layers, notes=notes)
    kernels, kept = _of_fewer_runs(profile.kernels)
    if kept is not None:
        notes = (*notes, _thinned_note("kernels", *kept, len(kernels)))
        found = replace(found, kernels=kernels, notes=notes)
    return found


def _thinned_note(what: str, most: int, runs: int, count: int) -> str:
    return (
        f"The {what}' durations are kept for {most} of {runs} runs, because there are {count} "
        f"{what}."
    )


def _of_fewer_runs(timed: tuple[T, ...]) -> tuple[tuple[T, ...], tuple[int, int] | None]:
    """Return them with fewer durations, and how many of how many these are; None: with all.

    The last run stays: the starts are its own.
    """
    runs = max((len(each.durations_ns) for each in timed), default=0)
    most = max(_FEWEST_RUNS, _MOST_DURATIONS // max(1, len(timed)))
    if runs <= most:
        return timed, None
    kept = [(at + 1) * runs // most - 1 for at in range(most)]
    return (
        tuple(
            replace(each, durations_ns=tuple(each.durations_ns[at] for at in kept))
            if len(each.durations_ns) == runs
            else each
            for each in timed
        ),
        (most, runs),
    )
