"""Chooses the bricks to time so that every model is predicted within a tolerance."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil, sqrt

import numpy as np

from inferometer_analysis.bricks.interpolate import (
    FEWEST_MEMBERS,
    Family,
    Interpolation,
    Position,
    family_of,
    position_of,
)
from inferometer_analysis.bricks.predict import bricks_to_time
from inferometer_analysis.layer_work import is_view
from inferometer_api.layers.graph import LayerGraph
from inferometer_api.layers.split import split
from inferometer_api.layers.timings import LayerTimings

_SHARE_AT_ONCE = 3
"""A third of what a family lacks is timed at once: it makes the others more certain."""


def next_bricks(
    graphs: Sequence[LayerGraph],
    timings: LayerTimings | None,
    granularity: int,
    tolerance: float,
    untimable: Collection[str] = (),
) -> frozenset[str]:
    """Return the bricks to time next; none once each prediction is off by no more than `tolerance`.

    First come some bricks of each family, as many as the root of their number, spread over its
    sizes. From their times follows what else each model needs, of which a third is timed at once.
    The `untimable` ones are never chosen. Without `timings` nothing is known yet; with them, the
    bricks of their models are.
    """
    families = _families(graphs, granularity)
    interpolation = None if timings is None else Interpolation(timings.graphs, timings, granularity)
    ready = {*untimable, *(timings.bricks if timings else ())}
    chosen: set[str] = set()
    for name, members in families.items():
        known = interpolation.positions(name) if interpolation else []
        wanted = max(FEWEST_MEMBERS, ceil(sqrt(len(members)))) - len(known)
        chosen.update(_spread(members, members.keys() - ready, wanted, known))
    if chosen or timings is None or interpolation is None:
        return frozenset(chosen)
    needed = {
        key
        for graph in graphs
        for key in bricks_to_time(graph, timings, granularity, interpolation, tolerance)
    }
    for name, members in families.items():
        lacking = (members.keys() & needed) - ready
        wanted = max(FEWEST_MEMBERS, ceil(len(lacking) / _SHARE_AT_ONCE))
        chosen.update(_spread(members, lacking, wanted, interpolation.positions(name)))
    return frozenset(chosen)


def _families(graphs: Iterable[LayerGraph], granularity: int) -> dict[Family, dict[str, Position]]:
    """Return the sizes of all bricks that have a family, by family and key."""
    bricks = {
        use.key: [graph.layers[key] for key in use.brick.layers]
        for graph in graphs
        for use in split(graph, granularity)
    }
    found: dict[Family, dict[str, Position]] = defaultdict(dict)
    for key, layers in bricks.items():
        if not all(map(is_view, layers)):
            found[family_of(layers)][key] = position_of(layers)
    return found


def _spread(
    positions: Mapping[str, Position], names: Collection[str], count: int, known: Iterable[Position]
) -> list[str]:
    """Return so many of the names, each the farthest from those before it and the known ones.

    Without any known one, the smallest is the first.
    """
    if not names or count >= len(names):
        return list(names)
    ordered = sorted(names, key=lambda name: (*positions[name], name))
    at = np.array([positions[name] for name in ordered])
    away = np.full(len(ordered), np.inf)
    for other in known:
        away = np.minimum(away, np.abs(at - other).sum(axis=1))
    chosen: list[str] = []
    while len(chosen) < count:
        farthest = int(np.argmax(away))
        chosen.append(ordered[farthest])
        away = np.minimum(away, np.abs(at - at[farthest]).sum(axis=1))
    return chosen
