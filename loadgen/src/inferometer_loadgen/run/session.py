"""Session of one plan: waits for the servers, measures all scenarios, reports on the way."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import EnvironmentReport
from inferometer_api.results.result import Outcome
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.timestamps import format_time
from inferometer_loadgen.reporting.live_metrics import LiveMetrics
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.reporting.report_writer import ReportSink
from inferometer_loadgen.run.environment import environment_of
from inferometer_loadgen.run.executor import (
    Executor,
    Executors,
    Interruption,
    RunContext,
    ScenarioRepeat,
)
from inferometer_loadgen.run.executor_table import EXECUTORS
from inferometer_loadgen.run.faults import FAULTS, NotAvailableError, lost_outcome, outcome_of
from inferometer_loadgen.run.scenario import measure_scenario
from inferometer_loadgen.server.servers import Servers

COMPLETE = Outcome(state="Complete", reason="Measured")


class MeasurementSession:
    """Executes one plan. `interrupt` ends it at once and keeps what was measured."""

    def __init__(
        self,
        plan: LoadPlan,
        reports: ReportSink,
        live: LiveMetrics,
        executors: Executors = EXECUTORS,
    ) -> None:
        self._plan = plan
        self._live = live
        self._reports = reports
        self._executors = executors
        self._interruption = Interruption()
        self._task: asyncio.Task[Outcome] | None = None
        self.first_query_at: str | None = None
        """When the first query was sent; None if none was."""

    async def run(self) -> Outcome | None:
        """Measure all scenarios and return the outcome; None if it was interrupted."""
        self._task = asyncio.create_task(self._outcome())
        try:
            outcome = await self._task
        except asyncio.CancelledError:
            return None
        return None if self._interruption.requested else outcome

    def interrupt(self) -> None:
        """End the measurement or its preparation now; only the first call counts."""
        if self._interruption.requested:
            return
        ends_step = self._interruption.request()
        if not ends_step and self._task is not None:
            self._task.cancel()

    async def _outcome(self) -> Outcome:
        try:
            missing = [*unavailable(self._plan.run, place=self._plan.place), *self._unexecutable()]
            if missing:
                raise NotAvailableError(" ".join(missing))
            return await self._measure_all()
        except FAULTS as fault:
            return outcome_of(fault)

    def _unexecutable(self) -> Iterator[str]:
        """Yield a sentence for each scenario whose kind has no executor."""
        for index, scenario in enumerate(self._plan.run.spec.scenarios):
            row = SCENARIOS.get(scenario.kind)
            if row is not None and row.executor not in self._executors:
                yield (
                    f"spec.scenarios[{index}].{scenario.kind}: {scenario.kind} is not available in "
                    f"this version: the load generator has no executor {row.executor!r}."
                )

    async def _measure_all(self) -> Outcome:
        servers = Servers(self._plan)
        spec = self._plan.run.spec
        progress = ProgressReporter(
            self._reports, len(spec.scenarios), self.interrupt, spec.validity.repeats
        )
        self._live.follow(progress.now)
        run = RunContext(
            plan=self._plan,
            servers=servers,
            reports=self._reports,
            progress=progress,
            live=self._live,
            interruption=self._interruption,
            on_first_query=self._note_first_query,
        )
        names = dict.fromkeys(SCENARIOS[each.kind].executor for each in spec.scenarios)
        with closing(progress):
            async with AsyncExitStack() as stack:
                executors = {
                    name: await stack.enter_async_context(self._executors[name](run))
                    for name in names
                }
                stack.callback(progress.close)  # before the executors
                return await self._measure_with(run, executors)

    async def _measure_with(self, run: RunContext, executors: Mapping[str, Executor]) -> Outcome:
        found = await run.servers.describe(run.progress.waiting)
        firsts = [self._first_repeat(index) for index in range(len(self._plan.run.spec.scenarios))]
        notes: list[str] = []
        for name, executor in executors.items():
            own = [first for first in firsts if first.kind.executor == name]
            notes += await executor.prepare(found, own)
        environment = environment_of(self._plan, found, notes)
        self._reports.add(EnvironmentReport(environment=environment))
        for first in firsts:
            numbers = range(1, first.validity.repeats + 1)
            repeats = [replace(first, repeat=number) for number in numbers]
            end = await measure_scenario(run, executors[first.kind.executor], repeats)
            lost = lost_outcome(
                end,
                run.servers.addresses,
                self._plan.run.spec.load.reconnect_deadline_seconds,
                is_last=first is firsts[-1],
            )
            if lost is not None:
                return lost
            if self._interruption.requested:
                break
        return COMPLETE

    def _first_repeat(self, index: int) -> ScenarioRepeat:
        spec = self._plan.run.spec
        scenario = spec.scenarios[index]
        trace = self._plan.trace_files.get(scenario.name, "")
        return ScenarioRepeat(scenario, index, spec.validity, spec.load.seed, trace)

    def _note_first_query(self) -> None:
        if self.first_query_at is None:
            self.first_query_at = format_time(datetime.now(UTC))
