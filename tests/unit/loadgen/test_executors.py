"""An executor enters a run by its row alone: the run itself knows none."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import ResultDocument, ScenarioResult, Verdict
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_loadgen.reporting.report_writer import LastingReport
from inferometer_loadgen.run.execution import PlanExecution
from inferometer_loadgen.run.executor import (
    Executor,
    Executors,
    RepeatExecution,
    RunContext,
    ScenarioRepeat,
    StepEnd,
)
from inferometer_loadgen.run.executor_table import EXECUTORS
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription
from support.load_runs import a_plan

SWEEP = {"concurrency": {"clients": [1, 2]}}


class _ToyRepeat:
    """Notes its steps, and finds itself INVALID if it was cut short."""

    def __init__(self, repeat: ScenarioRepeat, log: list[str]) -> None:
        self._repeat = repeat
        self._planned = iter(repeat.steps)
        self._log = log

    def next_step(self) -> StepPlan | None:
        return next(self._planned, None)

    async def run_step(self, step: StepPlan) -> StepEnd:
        self._log.append(f"{self._repeat.repeat}: {step.label}, seed {step.seed}")
        return StepEnd(End.DONE)

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult:
        is_valid = cut_short is None and not server_restarted
        return ScenarioResult(
            name=self._repeat.scenario.name,
            kind=self._repeat.scenario.kind,
            repeat=self._repeat.repeat,
            seed=self._repeat.seed,
            steps=[],
            verdict=Verdict(state="VALID" if is_valid else "INVALID"),
        )


class _Toy:
    """Executor that sends nothing."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        del run
        names = ", ".join(repeat.scenario.name for repeat in repeats)
        self._log.append(f"prepare {names} for {descriptions[0].server_name}")
        return ["A toy."]

    def start(self, repeat: ScenarioRepeat) -> RepeatExecution:
        return _ToyRepeat(repeat, self._log)


class _ServersWithoutSockets:
    """The servers of a plan that are ready at once; nothing can be sent to them."""

    addresses = "The server"

    def __init__(self, _: object) -> None:
        pass

    async def describe(self, _: object) -> list[ServerDescription]:
        return [ServerDescription("toy", "1", [], ["1"], [], [], {})]

    async def starts(self) -> list[frozenset[str]]:
        return [frozenset()]


class _NoSink:
    """Sink that drops all reports."""

    def progress(self, report: ProgressReport) -> None:
        pass

    def add(self, report: LastingReport) -> None:
        pass


def execute(
    executors: Executors, *scenarios: Mapping[str, object], repeats: int = 1
) -> ResultDocument:
    """Execute a run with these executors; return its result document."""
    plan = a_plan("http://127.0.0.1:1", *scenarios, load={"seed": 1}, validity={"repeats": repeats})

    async def run() -> ResultDocument | None:
        return (await PlanExecution(plan, _NoSink(), executors).run()).document

    document = asyncio.run(run())
    assert document is not None
    return document


def test_an_executor_runs_from_its_row_to_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened once, prepared with its scenarios, run step by step, judged and closed.

    All scenarios are measured once, then all again; the document has each one's repeats in a row.
    There is no load executor, and the servers here have no target to connect to.
    """
    log: list[str] = []

    @asynccontextmanager
    async def open_toy(_: RunContext) -> AsyncIterator[Executor]:
        log.append("open")
        yield _Toy(log)
        log.append("close")

    rows = dict(SCENARIOS)
    rows["concurrency"] = replace(rows["concurrency"], executor="toy")
    for module in ("executor", "session"):
        monkeypatch.setattr(f"inferometer_loadgen.run.{module}.SCENARIOS", rows)
    monkeypatch.setattr("inferometer_loadgen.run.session.Servers", _ServersWithoutSockets)
    document = execute({"toy": open_toy}, SWEEP, SWEEP, repeats=2)
    steps = [f"{n}: clients {c}, seed {n}" for n in (1, 2) for c in (1, 2)]
    first, second = steps[:2], steps[2:]
    once = ["open", "prepare s0, s1 for toy"]
    assert log == [*once, *first, *first, *second, *second, "close"]
    assert document.outcome.state == "Complete"
    assert document.first_query_at is None
    assert document.environment is not None
    assert document.environment.notes == ["A toy."]
    found = [(each.name, each.repeat, each.verdict.state) for each in document.scenarios]
    assert found == [(name, repeat, "VALID") for name in ("s0", "s1") for repeat in (1, 2)]
    assert [each.repeats for each in document.repeat_summaries] == [2, 2]


def test_a_kind_without_an_executor_is_refused() -> None:
    """Before anything is opened, in a sentence that names the scenario and the executor."""
    document = execute({}, SWEEP)
    assert (document.outcome.state, document.outcome.reason) == ("Refused", "NotAvailable")
    assert document.outcome.message == (
        "spec.scenarios[0].concurrency: concurrency is not available in this version: the load "
        "generator has no executor 'load'."
    )
    assert document.scenarios == []


def test_every_row_has_its_executor() -> None:
    """A row that names no executor of the table would be refused in every run."""
    assert {row.executor for row in SCENARIOS.values()} == set(EXECUTORS)
