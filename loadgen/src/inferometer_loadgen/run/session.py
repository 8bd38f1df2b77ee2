"""Session of one plan: waits for the servers, measures all scenarios, reports on the way.

All scenarios are measured once, then all again in the next repeat. If each repeat is to have a
server of its own, the session waits until the new one is handed over.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import EnvironmentReport, RepeatsReport
from inferometer_api.results.result import Environment, Outcome
from inferometer_api.results.search import RepeatScope
from inferometer_api.scenarios.table import SCENARIOS
from inferometer_api.spec.resolve import restarts_server
from inferometer_api.timestamps import format_time
from inferometer_loadgen.reporting.live_metrics import LiveMetrics
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.reporting.report_writer import ReportSink
from inferometer_loadgen.run.environment import environment_of, restart_of
from inferometer_loadgen.run.executor import (
    Executor,
    Executors,
    Interruption,
    RunContext,
    ScenarioRepeat,
)
from inferometer_loadgen.run.executor_table import EXECUTORS
from inferometer_loadgen.run.faults import FAULTS, NotAvailableError, lost_outcome, outcome_of
from inferometer_loadgen.run.output_sampling import sample_outputs
from inferometer_loadgen.run.scenario import ScenarioRepeats, measure_repeat
from inferometer_loadgen.run.target_handover import TargetHandover
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.servers import Servers, check_same_model

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
        self._environment: Environment | None = None
        self._first_server: ServerDescription | None = None
        self.handover = TargetHandover()
        """Takes the servers of further repeats."""
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
        validity = self._plan.run.spec.validity
        firsts = [self._first_repeat(index) for index in range(len(self._plan.run.spec.scenarios))]
        results = [ScenarioRepeats() for _ in firsts]
        try:
            for number in range(1, validity.repeats + 1):
                repeats = [replace(first, repeat=number) for first in firsts]
                if number == 1:
                    await self._prepare(run, executors, repeats)
                elif restarts_server(self._plan.run.spec):
                    run = await self._replace_servers(run, executors, repeats)
                is_last = number == validity.repeats
                lost = await self._measure_once(run, executors, repeats, results, is_last=is_last)
                if lost is not None:
                    return lost
                if self._interruption.requested:
                    break
        finally:
            scope: RepeatScope = "Server" if restarts_server(self._plan.run.spec) else "Load"
            for summary in (each.summary(scope) for each in results):
                if summary is not None:
                    self._reports.add(RepeatsReport(summary=summary))
        return COMPLETE

    async def _measure_once(
        self,
        run: RunContext,
        executors: Mapping[str, Executor],
        repeats: Sequence[ScenarioRepeat],
        results: Sequence[ScenarioRepeats],
        *,
        is_last: bool,
    ) -> Outcome | None:
        """Measure all scenarios once; return the outcome if a server or worker was lost."""
        for repeat, found in zip(repeats, results, strict=True):
            end = await measure_repeat(run, executors[repeat.kind.executor], repeat, found)
            ends_run = is_last and repeat is repeats[-1]
            reconnect_seconds = self._plan.run.spec.load.reconnect_deadline_seconds
            lost = lost_outcome(end, run.servers.addresses, reconnect_seconds, is_last=ends_run)
            if lost is not None or self._interruption.requested:
                return lost
        return None

    async def _replace_servers(
        self,
        run: RunContext,
        executors: Mapping[str, Executor],
        repeats: Sequence[ScenarioRepeat],
    ) -> RunContext:
        """Wait for the servers of a further repeat; return the context with them."""
        number, began = repeats[0].repeat, asyncio.get_running_loop().time()
        run.progress.restarting(number)
        plan = self._plan.aimed_at(await self.handover.wait(number))
        run = replace(run, plan=plan, servers=Servers(plan))
        run.live.aim_at(plan)
        run.progress.aim_at([each.pod_uid for each in plan.servers if each.pod_uid])
        found = await self._prepare(run, executors, repeats)
        if self._environment is not None and self._first_server is not None:
            seconds = asyncio.get_running_loop().time() - began
            restart = restart_of(plan, found, self._first_server, number, seconds)
            restarts = [*self._environment.restarts, restart]
            self._report_environment(self._environment.model_copy(update={"restarts": restarts}))
        return run

    async def _prepare(
        self,
        run: RunContext,
        executors: Mapping[str, Executor],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[ServerDescription]:
        """Wait for the servers, and prepare the executors for them."""
        found = await run.servers.describe(run.progress.waiting)
        if self._first_server is not None:
            names = ["the server of repeat 1", f"that of repeat {repeats[0].repeat}"]
            check_same_model(names, [self._first_server, found[0]])
        notes: list[str] = []
        for name, executor in executors.items():
            own = [repeat for repeat in repeats if repeat.kind.executor == name]
            notes += await executor.prepare(run, found, own)
        if self._first_server is None:
            self._first_server = found[0]
            environment = environment_of(run.plan, found, notes)
            samples = await sample_outputs(run, found[0])
            self._report_environment(environment.model_copy(update={"output_samples": samples}))
        return found

    def _report_environment(self, environment: Environment) -> None:
        self._environment = environment
        self._reports.add(EnvironmentReport(environment=environment))

    def _first_repeat(self, index: int) -> ScenarioRepeat:
        spec = self._plan.run.spec
        scenario = spec.scenarios[index]
        trace = self._plan.trace_files.get(scenario.name, "")
        return ScenarioRepeat(scenario, index, spec.validity, spec.load.seed, trace)

    def _note_first_query(self) -> None:
        if self.first_query_at is None:
            self.first_query_at = format_time(datetime.now(UTC))
