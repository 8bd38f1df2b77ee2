"""Whole runs on this machine for the gate: counts, order and lower bounds, which no load disturbs.

`make verify GROUP=local` has the rest.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.results.result import Step
from inferometer_loadgen import telemetry_client
from inferometer_loadgen.nodes import energy
from inferometer_results.store.database import default_address
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from support.agreement import below, latencies
from support.exact import poisson_schedule, within
from support.fake_agent import FakeAgent, answering, steady
from support.inferometer_process import Inferometer, result_in, run_file, started
from support.load_runs import a_plan, measure
from support.local_runs import done
from support.oracle_process import OracleProcess, Seen, oracle_process
from support.waiting import DEADLINE_SECONDS

MS = 1_000_000
SEED = 4_711
SECONDS = 2
DELAYS = 3 * MS + np.rint(np.random.default_rng(SEED).exponential(4 * MS, 4096)).astype(np.int64)
ENDLESS = {"minQueries": 200_000, "maxDurationSeconds": 600}
WATTS = 40.0


@pytest.fixture(scope="module")
def oracle() -> Iterator[OracleProcess]:
    """Give an oracle that all tests of this file give orders to in turn."""
    with oracle_process() as running:
        yield running


def windows(steps: list[Step], seen: Seen) -> list[Seen]:
    """Return what the oracle saw of each step's window, in order; nothing is lost between."""
    found = []
    first = 0
    for step in steps:
        first += step.warm_up_queries
        found.append(seen[first : first + step.counts.queries])
        first += step.counts.queries
    assert first == len(seen)
    return found


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_a_run_counts_the_requests_that_the_server_received(
    oracle: OracleProcess, tmp_path: Path, protocol: str
) -> None:
    """From run file to result: every query is counted once, and no latency is below the server's.

    The open loop sends exactly its schedule, none of it early.
    """
    oracle.obey(DELAYS)
    file = run_file(
        tmp_path,
        {"singleStream": {}},
        {"server": {"targetQps": 100}},
        {"batch": {"batchSizes": [1, 4]}},
        {"concurrency": {"clients": [3]}},
        spec={
            "model": {"name": "oracle"},
            "server": {"runtime": "External", "external": {"url": oracle.url(protocol)}},
            "load": {"protocol": protocol, "seed": SEED},
        },
        validity={"minDurationSeconds": SECONDS},
    )
    with started(tmp_path, "run", str(file), "--output", "out") as process:
        ended = process.ended()
    assert ended.code in {0, 3}, ended.stderr  # a busy machine makes it INVALID
    result = result_in(tmp_path / "out")
    assert result.outcome.state == "Complete"
    with Store(default_address()) as store:
        (stored,) = store.find(Search(f'run="{result.run.name}" and protocol={protocol}'))
        assert f"stored  {stored['id'][:12]}" in ended.stderr
        assert store.read(stored["id"]).content == (tmp_path / "out" / "result.json").read_bytes()
    steps = [step for scenario in result.scenarios for step in scenario.steps]
    assert [step.label for step in steps] == ["", "", "batch 1", "batch 4", "clients 3"]
    for step, seen in zip(steps, windows(steps, oracle.report()), strict=True):
        assert step.counts.failed == 0
        assert step.counts.succeeded == step.counts.queries == len(seen)
        assert step.counts.samples == seen.samples.sum()
        assert step.latency is not None
        assert below(latencies(step.latency), seen.own) == 0
    due = within(poisson_schedule(SEED, 100, 1000), SECONDS)
    assert steps[1].counts.scheduled == len(due)
    assert steps[0].duration_nanoseconds >= SECONDS * 10**9
    for scenario in result.scenarios:
        # Each was measured once.
        assert "SingleWindow" in {caution.rule for caution in scenario.verdict.cautions}


def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path) -> None:
    """Ctrl-C ends the run with 130, and the result has the scenario that was complete."""

    def interrupt(process: Inferometer) -> None:
        process.wait_for("s1 (2/2): measuring")
        process.press_ctrl_c()

    single: dict[str, Any] = {"singleStream": {}}
    run = done(tmp_path, {"batch": {"batchSizes": [256]}}, single, act=interrupt, validity=ENDLESS)
    assert run.ended.code == 130, run.ended.stderr
    assert run.outcome == ("Interrupted", "Interrupted")
    assert run.result is not None
    assert run.result.scenarios[0].steps[0].counts.succeeded > 0
    assert run.left_behind == []
    assert run.temporary == []


def test_a_run_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """A missing model ends the run with 2 and one sentence, and leaves nothing."""
    run = done(tmp_path, {"singleStream": {}}, spec={"model": {"uri": "file:nowhere.onnx"}})
    assert run.ended.code == 2, run.ended.stderr
    assert "nowhere.onnx" in run.ended.sentence
    assert run.left_behind == []
    assert not run.directory.exists()


def test_a_fleet_sends_the_union_of_its_shares(oracle: OracleProcess) -> None:
    """Two workers send the one schedule: the first its even queries, the second the odd."""
    oracle.obey([MS])
    plan = a_plan(
        oracle.url("GRPC"),
        {"server": {"targetQps": 80}},
        load={"workers": 2, "connections": 4, "seed": SEED},
        validity={"minDurationSeconds": SECONDS},
    )
    run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    (step,) = run.scenarios[0].steps
    due = within(poisson_schedule(SEED, 80, 1000), SECONDS)
    assert step.counts.scheduled == step.counts.queries == len(due)
    assert [worker.queries for worker in step.workers] == [len(due[::2]), len(due[1::2])]
    (seen,) = windows([step], oracle.report())
    assert len(seen) == len(due)


def test_a_run_is_metered(oracle: OracleProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Energy is the agent's power times the time between its readings, however late they come.

    `make verify` has the limits of that lateness.
    """
    monkeypatch.setattr(telemetry_client, "ANSWERS_WITHIN_SECONDS", DEADLINE_SECONDS)
    monkeypatch.setattr(energy, "MOST_APART", DEADLINE_SECONDS)
    oracle.obey([5 * MS])
    agent = FakeAgent(law=steady(WATTS, busy_cores=2.0, target_cores=0.5))
    with answering(agent):
        plan = a_plan(
            oracle.url("HTTP"),
            {"singleStream": {}},
            agents=[agent.planned()],
            spec={"telemetry": {"idleSeconds": 1}},
            validity={"minDurationSeconds": SECONDS},
        )
        run = measure(plan)
    assert run.exit_code == 0, run.outcome.message
    (step,) = run.scenarios[0].steps
    found = step.energy
    assert found.reason == ""
    assert found.attribution == "shared"
    assert found.window_nanoseconds is not None
    joules = WATTS * found.window_nanoseconds / 1e9
    (domain,) = found.domains
    assert domain.domain_microjoules == pytest.approx(joules * 1e6, rel=0.01)
    assert found.microjoules == pytest.approx(joules * 1e6 / 4, rel=0.01)
    assert found.baseline_milliwatts == pytest.approx(WATTS * 1000, rel=0.01)
