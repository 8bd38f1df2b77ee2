"""Computes what it costs to add a model to a database of bricks, by running the model."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferometer_analysis.bricks.interpolate import Interpolation
from inferometer_analysis.bricks.predict import predict
from inferometer_analysis.bricks.select import next_bricks
from inferometer_api.layers.timings import LayerTimings
from inferometer_results.store.layer_timings import all_timings, known_timings
from inferometer_results.store.store import Store
from inferometer_serving.machine_name import engine_versions, machine_name

RUNS = 23
"""Runs of a model that its bricks compete with."""
BERTS = ("albert_base", "bert_base", "distilbert", "minilm_l6", "roberta_base")
Found = Mapping[str, Mapping[str, Any]]
"""What `inferometer bricks run --reference --json` printed, by model."""


@dataclass(frozen=True, slots=True)
class Added:
    """What it costs to add a model, and how well it is predicted then."""

    share: float
    """The time of the bricks that it needs, by opening it and running it 23 times."""
    ratio: float
    """Predicted over measured latency."""


def brick_cost(brick: Mapping[str, float]) -> float:
    """Return the ns to open a brick and run it as often as it was."""
    return float(brick["sessionNanoseconds"] + brick["runs"] * brick["nanoseconds"])


def model_cost(found: Mapping[str, Any]) -> float:
    """Return the ns to open a model and run it 23 times."""
    (one,) = found["models"]
    return float(one["sessionNanoseconds"] + RUNS * one["measuredNanoseconds"])


def timings_of(folder: Path) -> LayerTimings:
    """Return what a study timed on this machine, with all of its models.

    Raises ValueError if that is nothing.
    """
    with Store(str(folder / "layers.db")) as store:
        known = known_timings(store, machine_name(), 1, engine_versions())
        graphs = {graph.model: graph for each in all_timings(store) for graph in each.graphs}
    if known is None:
        raise ValueError(f"{folder / 'layers.db'} has no bricks of this machine.")
    return known.model_copy(update={"graphs": list(graphs.values())})


def leave_one_out(found: Found, known: LayerTimings, tolerance: float) -> dict[str, Added]:
    """Return what it costs to add each model to a database of all others.

    The study timed every brick. Which of them a prediction within the `tolerance` needs is decided
    with the times of the others alone, as `bricks run --tolerance` does.
    """
    graphs = {each.model: each for each in known.graphs}
    added = {}
    for name, each in found.items():
        (one,) = each["models"]
        graph = graphs[one["model"]]
        others = {key for other, its in found.items() if other != name for key in its["bricks"]}
        needed: set[str] = set()
        timings = _only(known, others)
        while more := next_bricks([graph], timings, 1, tolerance, needed):
            needed |= more
            timings = _only(known, others | needed)
        interpolation = Interpolation(graphs.values(), timings)
        prediction = predict(graph, timings, 1, interpolation)
        costs = (brick_cost(each["bricks"][key]) for key in needed if key in each["bricks"])
        added[name] = Added(
            share=sum(costs) / model_cost(each),
            ratio=prediction.sequential_nanoseconds / one["measuredNanoseconds"],
        )
    return added


def _only(known: LayerTimings, keys: set[str]) -> LayerTimings:
    bricks = {key: each for key, each in known.bricks.items() if key in keys}
    return known.model_copy(update={"bricks": bricks})


def with_siblings(names: Mapping[str, object]) -> list[str]:
    """Return the models that have a sibling of their family."""
    families = [_family(name) for name in names]
    return [name for name in names if families.count(_family(name)) > 1]


def _family(name: str) -> str:
    stem = name.rpartition("/")[2]
    return "bert" if stem in BERTS else re.split(r"[\d_]", stem)[0]
