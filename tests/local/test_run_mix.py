"""A run mixes the models of one server, launched or External, exactly as the seed plans."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import Step
from inferometer_loadgen.schedule.arrivals import Stream
from inferometer_loadgen.schedule.model_choice import model_choices
from support.inferometer_process import started
from support.local_runs import Done, done, together
from support.onnx_models import identity, save

WEIGHTS = {"model": 5, "wide": 3, "tall": 2}
MIX = [{"model": name, "weight": weight} for name, weight in WEIGHTS.items()]
LOADS: dict[str, dict[str, Any]] = {
    "server": {"targetQps": 60},
    "singleStream": {},
    "findPeak": {"latencyBoundMicroseconds": 900_000, "probe": {"minQueries": 20, "maxSeconds": 2}},
}
SEED = 42
_PATIENCE_SECONDS = 300


def _models(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save(identity(shape=("batch", 7)), folder / "wide.onnx")
    save(identity(shape=("batch", 3, 5)), folder / "tall.onnx")
    save(identity(), folder / "model.onnx")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """Launch servers with three models over both protocols, and measure one that serves already."""
    folder = tmp_path_factory.mktemp("mix")
    _models(folder)
    scenarios = [{"mix": MIX, kind: load} for kind, load in LOADS.items()]
    others = [{"uri": "file:wide.onnx"}, {"uri": "file:tall.onnx"}]
    words = (
        *("serve", "file:model.onnx", "--http-port", "0", "--grpc-port", "0"),
        *("--other-model", f"wide={folder / 'wide.onnx'}"),
        *("--other-model", f"tall={folder / 'tall.onnx'}"),
    )
    launched = {}
    for protocol in ("HTTP", "GRPC"):
        _models(folder / protocol)
        spec = {"otherModels": others, "load": {"protocol": protocol, "seed": SEED}}
        launched[protocol] = partial(
            done, folder / protocol, *scenarios, spec=spec, within_seconds=_PATIENCE_SECONDS
        )
    with started(folder, *words) as server:
        ports = json.loads(server.wait_for("event=ready").first_line())
        external = {
            "model": {"name": "model"},
            "server": {
                "runtime": "External",
                "external": {"url": f"http://127.0.0.1:{ports['httpPort']}"},
            },
            "load": {"protocol": "HTTP", "seed": SEED},
        }
        unknown = [{"model": "model", "weight": 1}, {"model": "absent", "weight": 1}]
        with together(
            launched
            | {
                "External": partial(
                    done,
                    folder / "External",
                    {"mix": MIX, "server": LOADS["server"]},
                    spec=external,
                ),
                "unknown": partial(
                    done, folder / "unknown", {"mix": unknown, "singleStream": {}}, spec=external
                ),
            },
            at_once=3,
        ) as futures:
            yield futures


def _counts(step: Step) -> dict[str, int]:
    return {each.model: each.queries for each in step.models}


def _planned(queries: int) -> dict[str, int]:
    shares = [weight / sum(WEIGHTS.values()) for weight in WEIGHTS.values()]
    counts = Counter(islice(model_choices(shares, SEED, Stream.MEASURED), queries))
    return {name: counts[index] for index, name in enumerate(WEIGHTS)}


@pytest.mark.parametrize("name", ["HTTP", "GRPC", "External"])
def test_counts_are_exactly_those_of_the_plan(runs: dict[str, Future[Done]], name: str) -> None:
    """Each model got as many queries as the seed plans for the window, without an error."""
    run = runs[name].result()
    assert run.result is not None, run.ended.stderr
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    for scenario in run.result.scenarios:
        for step in scenario.steps:
            assert step.counts.failed == 0
            assert sum(_counts(step).values()) == step.counts.queries
            assert (
                step.latency is None
                or sum(each.latency.count for each in step.models if each.latency is not None)
                == step.latency.count
            )
            if scenario.kind != "findPeak":  # whose steps have seeds of their own
                assert _counts(step) == _planned(step.counts.queries)
    assert run.left_behind == []


def test_an_unknown_model_is_refused(runs: dict[str, Future[Done]]) -> None:
    """A mix with a model that the server lacks ends 2 and names model, server and remedy."""
    run = runs["unknown"].result()
    assert run.ended.code == 2
    assert "names the model 'absent', which the server at 127.0.0.1:" in run.ended.stderr
    assert "Name a model that it serves" in run.ended.stderr
