"""Every example does what its first lines say.

With shorter windows than they have, so that all of them take seconds.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from support.inferometer_process import started
from support.local_runs import Done, done, together

FOLDER = Path(__file__).parents[2] / "examples"
SUITES = (
    *("14-suite", "16-servers", "20-bricks", "22-cold-starts", "25-model-cache"),
    "26-pipeline",
)
"""They take as long as eight runs: tests/local/test_suites_run.py has one like them,
tests/local/test_stacks_cold_starts.py number 22, and tests/local/test_tasks_pipeline.py the last
one."""
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in SUITES)
NEEDS_MORE = {
    "06-external-service": "spec.server.external.service: a local run has no Services",
    "07-own-model-on-cluster": "spec.model.uri: pvc:// needs a cluster",
    "08-resnet50-gpu": "The device GPU was requested, but",
    "21-kserve": "spec.server.runtime: KServe",
    "23-node-probe": "`kubectl apply` measures nodes of a cluster, `inferometer node` this one",
}
"""What a machine alone, without a GPU, says to those that need more."""
RUN_HERE = [name for name in NAMES if name not in NEEDS_MORE]
_PATIENCE_SECONDS = 300
SHORTER: dict[str, object] = {
    "spec.validity.warmUpSeconds": 0,
    "spec.validity.minDurationSeconds": 1,
    "spec.validity.minQueries": 1,
}
PROBES: dict[str, object] = {
    "spec.scenarios[capacity].findPeak.probe.minQueries": 20,
    "spec.scenarios[capacity].findPeak.probe.maxSeconds": 2,
    "spec.validity.maxDurationSeconds": 30,
}
PROFILES: dict[str, object] = {
    "spec.scenarios[archive].offline.samples": 100,
    "spec.scenarios[recorded].trace.timeScale": "0.1",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """Every example, three at a time, next to the server that one of them needs."""
    folder = tmp_path_factory.mktemp("examples")
    words = ("serve", "zoo://classification/squeezenet1_1", "--http-port", "0", "--grpc-port", "0")
    with started(folder, *words) as server:
        ports = json.loads(server.first_line())
        own: dict[str, dict[str, object]] = {
            "01-resnet50-cpu": {"spec.scenarios[throughput].batch.batchSizes": [1, 2]},
            # A slow machine needs a minute and more for its 80 queries.
            "05-overloaded": {
                "spec.validity.minQueries": 80,
                "spec.load.requestTimeoutMilliseconds": 1000 * _PATIENCE_SECONDS,
            },
            "09-peak": PROBES,
            "12-profiles": PROFILES,
            "03-external-server": {
                "spec.server.external.url": f"http://127.0.0.1:{ports['httpPort']}"
            },
        }
        with together(
            {
                name: partial(
                    done,
                    folder / name,
                    file=FOLDER / f"{name}.yaml",
                    words=_set(SHORTER | own.get(name, {})),
                    within_seconds=_PATIENCE_SECONDS,
                )
                for name in NAMES
            },
            at_once=3,
        ) as futures:
            yield futures


def _set(values: dict[str, object]) -> tuple[str, ...]:
    return tuple(word for path, value in values.items() for word in ("--set", f"{path}={value}"))


@pytest.mark.parametrize("name", RUN_HERE)
def test_an_example_runs_to_its_report(runs: dict[str, Future[Done]], name: str) -> None:
    """Each is measured without an error and leaves result and report, VALID or with reasons."""
    run = runs[name].result()
    assert run.result is not None, run.ended.stderr
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    assert run.files == ["report.html", "result.json"]
    assert [len(scenario.steps) > 0 for scenario in run.result.scenarios]
    assert all(
        step.counts.failed == 0 for scenario in run.result.scenarios for step in scenario.steps
    )
    assert run.ended.code == (0 if run.result.valid else 3)
    assert run.left_behind == []


def test_the_overloaded_server_is_found_out(runs: dict[str, Future[Done]]) -> None:
    """The example that requests too much ends 3: neither rate nor bound were kept."""
    run = runs["05-overloaded"].result()
    assert run.ended.code == 3
    assert run.result is not None
    reasons = {reason.rule for reason in run.result.scenarios[0].verdict.reasons}
    assert {"LatencyBound", "AchievedRate"} <= reasons


@pytest.mark.parametrize("name", NEEDS_MORE)
def test_an_example_that_needs_more_is_refused(runs: dict[str, Future[Done]], name: str) -> None:
    """What needs a cluster is refused with what to do instead; so is a GPU where there is none."""
    run = runs[name].result()
    if name == "08-resnet50-gpu" and run.ended.code != 2:
        assert run.outcome == ("Complete", "Measured")
        return
    assert run.ended.code == 2
    assert NEEDS_MORE[name] in run.ended.stderr
    assert run.files == []
