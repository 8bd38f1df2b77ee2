"""The last profiled inference of each step on one axis: its layers, each within its outer one.

Times are in ns from the start of that inference. On a GPU it is the last one whose kernels were
recorded: its layers are placed by their launches, and one that launches nothing has no place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inferometer_api.results.result import (
    KernelProfile,
    LayerProfile,
    ResultDocument,
    StepProfile,
)
from inferometer_results.profile import ProfiledStep, profiled_steps


@dataclass(frozen=True, slots=True)
class PlacedLayer:
    """One layer, or the part of a layer in a loop that ran without another one in between."""

    layer: LayerProfile
    outer: int | None
    """Position of the loop or branch around it, which comes before it."""
    start_ns: int
    end_ns: int
    kernels: Sequence[KernelProfile] = ()
    """What it launched, with what the layers within it launched, in the order of the launches."""


@dataclass(frozen=True, slots=True)
class ProfileTimeline:
    """The last profiled inference of a step."""

    step: ProfiledStep
    duration_ns: int
    """Of the inference, or until the last layer or kernel ends, if that is later."""
    layers: list[PlacedLayer]


def profile_timelines(document: ResultDocument) -> Iterator[ProfileTimeline]:
    """Yield the last profiled inference of each step that has one."""
    for each in profiled_steps(document):
        profile = each.profile
        if profile.kernels:
            layers, runs = _by_launches(profile), profile.kernel_profiled_nanoseconds
        else:
            layers = _by_own_times(profile)
            runs = profile.profiled_nanoseconds if layers else profile.model_nanoseconds
        ends = [layer.end_ns for layer in layers]
        ends += [max(kernel_ends(kernel)) for kernel in profile.kernels]
        if runs or ends:
            yield ProfileTimeline(each, max([*runs[-1:], *ends]), layers)


def kernel_ends(kernel: KernelProfile) -> tuple[int, int]:
    """Return when the launch of a kernel ends, and when its execution does."""
    launched = kernel.launch_start_nanoseconds + kernel.launch_nanoseconds
    return launched, kernel.start_nanoseconds + sum(kernel.durations_nanoseconds[-1:])


def _by_own_times(profile: StepProfile) -> list[PlacedLayer]:
    """Return the layers as the engine timed them, in their order.

    The duration of a layer in a loop is the sum over all rounds, and its start that of the last
    round. It begins earlier if it and the layers after it would not end within the loop otherwise.
    """
    timed = sorted(
        (each for each in profile.layers if each.durations_nanoseconds),
        key=lambda each: each.index,
    )
    left_ns: dict[int | None, int] = {}
    for layer in timed:
        took_ns = layer.durations_nanoseconds[-1]
        left_ns[layer.outer] = left_ns.get(layer.outer, 0) + took_ns
    found: list[PlacedLayer] = []
    positions: dict[int, int] = {}
    free_from_ns: dict[int, int] = {}
    for layer in timed:
        start_ns, took_ns = layer.start_nanoseconds, layer.durations_nanoseconds[-1]
        end_ns = start_ns + took_ns
        at = None if layer.outer is None else positions.get(layer.outer)
        if at is not None:
            outer = found[at]
            latest_ns = outer.end_ns - left_ns[layer.outer]
            moved_ns = outer.start_ns - outer.layer.start_nanoseconds
            free_ns = free_from_ns.get(at, outer.start_ns)
            start_ns = max(free_ns, min(start_ns + moved_ns, latest_ns))
            end_ns = min(start_ns + took_ns, outer.end_ns)
            left_ns[layer.outer] -= took_ns
            free_from_ns[at] = end_ns
        positions[layer.index] = len(found)
        found.append(PlacedLayer(layer, at, start_ns, end_ns))
    return found


def _by_launches(profile: StepProfile) -> list[PlacedLayer]:
    """Return the layers from their first to their last launch, each before those within it."""
    layers = {each.index: each for each in profile.layers}
    found: list[tuple[LayerProfile, int | None, list[KernelProfile]]] = []
    open_at: list[int] = []
    for kernel in sorted(profile.kernels, key=lambda each: each.launch_start_nanoseconds):
        around = _outermost_first(kernel.layer, layers)
        same = 0
        while same < min(len(open_at), len(around)) and found[open_at[same]][0] is around[same]:
            same += 1
        del open_at[same:]
        for layer in around[same:]:
            outer = open_at[-1] if open_at else None
            open_at.append(len(found))
            found.append((layer, outer, []))
        for at in open_at:
            found[at][2].append(kernel)
    return [
        PlacedLayer(
            layer,
            outer,
            start_ns=kernels[0].launch_start_nanoseconds,
            end_ns=max(kernel_ends(each)[0] for each in kernels),
            kernels=kernels,
        )
        for layer, outer, kernels in found
    ]


def _outermost_first(index: int | None, layers: Mapping[int, LayerProfile]) -> list[LayerProfile]:
    found: list[LayerProfile] = []
    while index is not None and index in layers:
        layer = layers[index]
        found.append(layer)
        index = layer.outer if layer.outer is not None and layer.outer < index else None
    return found[::-1]
