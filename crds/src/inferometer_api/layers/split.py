"""Cuts a model into bricks: chains of at most G layers (algorithms 1 and 2 of the paper).

The paper's pseudo-code leaves a layer out between two bricks and does not end for a layer that is
no model by itself. Here a brick is the half-open range of layers [begin, end), the next one begins
at its end, and a single layer is always a brick.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from inferometer_api.layers.bricks import Brick, BrickSuite
from inferometer_api.layers.graph import Layer, LayerGraph, LayerUse

_LAYERS_WITH_THREADS = 3


@dataclass(frozen=True, slots=True)
class BrickUse:
    """One brick at its place in a model."""

    key: str
    brick: Brick
    inputs: frozenset[int]
    """The activations that it reads from outside."""
    outputs: frozenset[int]
    """The activations that others may read."""


def default_granularity(threads: int) -> int:
    """Return the most layers of a brick that predict well with so many threads.

    Within a model, each of several threads finds what it has just computed in the cache of its own
    CPU. Alone, a layer reads what it has read before, so that short chains are closer to the model.
    """
    return 1 if threads == 1 else _LAYERS_WITH_THREADS


def split(graph: LayerGraph, granularity: int) -> tuple[BrickUse, ...]:
    """Return the bricks of a model in the order in which they run, each of at most G layers."""
    readers = Counter(number for use in graph.uses for number in set(use.inputs))
    uses, bricks, begin = graph.uses, [], 0
    while begin < len(uses):
        end = begin + 1
        while end < min(begin + granularity, len(uses)):
            if not _continues(uses[end - 1], uses[end], readers):
                break
            end += 1
        bricks.append(_brick_use(graph, uses[begin:end]))
        begin = end
    return tuple(bricks)


def operators_of(use: BrickUse, graph: LayerGraph) -> str:
    """Return the operators of a brick, as in Conv-Relu."""
    return "-".join(graph.layers[key].operator for key in use.brick.layers)


def compose_suite(graphs: Iterable[LayerGraph], granularity: int) -> BrickSuite:
    """Return the unique bricks of some models, which one engine must have optimised.

    They are sorted by their keys, so that nothing shows which model they come from.
    """
    layers: dict[str, Layer] = {}
    bricks: dict[str, Brick] = {}
    engine, version = "", ""
    for graph in graphs:
        engine, version = graph.engine, graph.engine_version
        for use in split(graph, granularity):
            if use.key not in bricks:
                bricks[use.key] = use.brick
                layers |= {key: graph.layers[key] for key in use.brick.layers}
    return BrickSuite(
        engine=engine,
        engine_version=version,
        granularity=granularity,
        layers=dict(sorted(layers.items())),
        bricks=dict(sorted(bricks.items())),
    )


def _continues(last: LayerUse, following: LayerUse, readers: Counter[int]) -> bool:
    """Return whether a layer reads what the last one computes, and is the only one to do so.

    A layer that reads it twice, or a last layer whose result others need, makes no simple path.
    """
    read = [number for number in following.inputs if number in last.outputs]
    return len(read) == 1 and len(last.outputs) == 1 and readers[read[0]] == 1


def _brick_use(graph: LayerGraph, uses: list[LayerUse]) -> BrickUse:
    feeds = [
        _position(graph.layers[use.layer], use.inputs.index(before.outputs[0]))
        for before, use in pairwise(uses)
    ]
    brick = Brick(layers=[use.layer for use in uses], feeds=feeds)
    inner = {before.outputs[0] for before in uses[:-1]}
    return BrickUse(
        key=brick_key(brick),
        brick=brick,
        inputs=frozenset(number for use in uses for number in use.inputs) - inner,
        outputs=frozenset(uses[-1].outputs),
    )


def _position(layer: Layer, activation: int) -> int:
    """Return the position among all inputs of the n-th input that is an activation."""
    positions = [at for at, each in enumerate(layer.inputs) if each.kind == "Activation"]
    return positions[activation]


def brick_key(brick: Brick) -> str:
    """Return the key of a brick: that of its layer, or a digest over those of its chain."""
    if len(brick.layers) == 1:
        return brick.layers[0]
    text = json.dumps([brick.layers, brick.feeds])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
