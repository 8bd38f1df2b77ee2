"""Interpolates the time of a brick from bricks of its family that were timed.

A family is bricks of the same operators, attributes and datatypes in other shapes. Within one, the
time by multiply-accumulate, or by byte where nothing is multiplied, changes slowly with the sizes.
How far an interpolated time is off is measured, not assumed: each member of the family is
interpolated from the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from json import dumps
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from inferometer_analysis.layer_work import is_view, macs_of, tensor_bytes, weight_bytes
from inferometer_api.layers.graph import Layer, LayerGraph
from inferometer_api.layers.split import split
from inferometer_api.layers.timings import LayerTimings, Timing

Family = str
"""What bricks have in common whose times are interpolated from each other."""
Position = NDArray[np.float64]
"""The sizes of a brick in logarithms, so that distances are ratios."""

FEWEST_MEMBERS = 4
"""Members that a family needs."""
_NEAREST = 3
"""Members that a time is interpolated from."""
_JUDGES = 8
"""Members whose own errors say how far it is off."""
_CACHE_LINE_BYTES = 64
_LEAST_DISTANCE = 0.05
_LEAST_ERROR = 0.02
_SHAPES = frozenset({"auto_pad", "group", "pads"})
"""Attributes of convolutions that follow from the shapes, or change the time little."""


@dataclass(frozen=True, slots=True)
class InterpolatedTime:
    """The interpolated time of a brick."""

    nanoseconds: float
    """Without the call of the engine."""
    slower_nanoseconds: float
    """How much longer it takes with cold caches."""
    error: float
    """How far such times are off in its family, as a share of them."""
    family: Family


class Interpolation:
    """The times of bricks that are known, by family."""

    def __init__(
        self, graphs: Iterable[LayerGraph], timings: LayerTimings, granularity: int = 1
    ) -> None:
        """Take the bricks of models that have a time."""
        bricks = {
            use.key: [graph.layers[key] for key in use.brick.layers]
            for graph in graphs
            for use in split(graph, granularity)
            if use.key in timings.bricks
        }
        members: dict[Family, list[_Member]] = defaultdict(list)
        for key, layers in bricks.items():
            if not all(map(is_view, layers)):
                member = _member(layers, timings.bricks[key], timings)
                members[family_of(layers)].append(member)
        self._families = {name: _Members(each) for name, each in members.items()}

    def positions(self, family: Family) -> list[Position]:
        """Return the sizes of the members of a family."""
        found = self._families.get(family)
        return [each.position for each in found.members] if found else []

    def estimate(self, layers: Sequence[Layer]) -> InterpolatedTime | None:
        """Return the time of a brick of these layers; None if too few of its family have one."""
        name = family_of(layers)
        family = self._families.get(name)
        if family is None or len(family.members) < FEWEST_MEMBERS:
            return None
        return family.estimate(position_of(layers), _work(layers), name)


def family_of(layers: Sequence[Layer]) -> Family:
    """Return the family of a brick."""
    return dumps([_kind(each) for each in layers])


def position_of(layers: Sequence[Layer]) -> Position:
    """Return the position of a brick."""
    sizes = (
        _work(layers),
        sum(map(_read_bytes, layers)) + _CACHE_LINE_BYTES,
        sum(map(_written_bytes, layers)) + _CACHE_LINE_BYTES,
        sum(map(weight_bytes, layers)) + _CACHE_LINE_BYTES,
    )
    return np.log(np.array(sizes, np.float64))


def _kind(layer: Layer) -> list[object]:
    attributes = [each for each in layer.attributes if each.get("name") not in _SHAPES]
    tensors = [each for each in layer.inputs if each.kind != "Absent"]
    return [
        *(layer.domain, layer.operator, attributes, _groups(layer)),
        [(each.kind, each.datatype) for each in tensors],
        any(each.sample for each in (*layer.inputs, *layer.outputs)),
    ]


def _groups(layer: Layer) -> str:
    """Return whether a convolution has one group, one for each channel, or some."""
    group = next((int(a.get("i", 1)) for a in layer.attributes if a.get("name") == "group"), 1)
    if group == 1:
        return "one"
    return "each" if group in layer.outputs[0].shape[1:2] else "some"


@dataclass(frozen=True, slots=True)
class _Member:
    """A brick that was timed."""

    position: Position
    work: float
    nanoseconds: float
    slower_nanoseconds: float


def _member(layers: Sequence[Layer], timing: Timing, timings: LayerTimings) -> _Member:
    return _Member(
        position_of(layers),
        _work(layers),
        float(max(timings.own_nanoseconds(timing), 1)),
        float(timing.slower_nanoseconds),
    )


def _work(layers: Sequence[Layer]) -> float:
    """Return the multiply-accumulates of a brick, or if there are none, the bytes that it moves."""
    macs = sum(map(macs_of, layers))
    return float(macs or max(sum(map(_read_bytes, layers)) + sum(map(_written_bytes, layers)), 1))


def _read_bytes(layer: Layer) -> int:
    read = (each for each in layer.inputs if each.kind == "Activation" and each.same_as is None)
    return sum(map(tensor_bytes, read))


def _written_bytes(layer: Layer) -> int:
    return sum(map(tensor_bytes, layer.outputs))


@dataclass
class _Members:
    """The members of one family."""

    members: list[_Member]
    _positions: NDArray[np.float64] = field(init=False)
    _rates: NDArray[np.float64] = field(init=False)
    """The logarithms of the times by work."""

    def __post_init__(self) -> None:
        self._positions = np.array([each.position for each in self.members])
        self._rates = np.log([each.nanoseconds / each.work for each in self.members])

    def estimate(self, position: Position, work: float, family: Family) -> InterpolatedTime:
        """Return the time of a brick with these sizes."""
        distances = np.abs(self._positions - position).sum(axis=1)
        nearest, weights = _nearest(distances)
        rate = float(weights @ self._rates[nearest])
        slower = [self.members[at].slower_nanoseconds / self.members[at].work for at in nearest]
        judges = np.argsort(distances, kind="stable")[:_JUDGES]
        error = sqrt(float(np.mean(self._errors[judges] ** 2)))
        return InterpolatedTime(
            nanoseconds=exp(rate) * work,
            slower_nanoseconds=float(weights @ np.array(slower)) * work,
            error=max(error, _LEAST_ERROR) * (1 + float(distances[nearest[0]])),
            family=family,
        )

    @cached_property
    def _errors(self) -> NDArray[np.float64]:
        """How far each member is off, in logarithms, interpolated from the others."""
        found = []
        for at, rate in enumerate(self._rates):
            distances = np.abs(self._positions - self._positions[at]).sum(axis=1)
            distances[at] = np.inf
            nearest, weights = _nearest(distances)
            found.append(float(weights @ self._rates[nearest]) - float(rate))
        return np.array(found)


def _nearest(distances: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the nearest members and how much each counts; the weights sum to 1."""
    nearest = np.argsort(distances, kind="stable")[:_NEAREST]
    weights = 1 / (distances[nearest] + _LEAST_DISTANCE)
    return nearest, weights / weights.sum()
