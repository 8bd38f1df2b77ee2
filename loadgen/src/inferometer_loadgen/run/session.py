"""Session of one plan: waits for the servers, measures all scenarios, reports on the way."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from typing_extensions import override

from inferometer_api.plan.availability import unavailable
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import (
    EnvironmentReport,
    ListeningReport,
    RepeatsReport,
    ScenarioReport,
)
from inferometer_api.results.result import Outcome, OutcomeState, ScenarioResult
from inferometer_api.scenarios.table import recorded_arrivals
from inferometer_api.spec.scenario import Scenario
from inferometer_api.timestamps import format_time
from inferometer_loadgen.client.node import node_name
from inferometer_loadgen.drive import DrivenStep, LoadDriver, StepObserver
from inferometer_loadgen.drive.first_requests import FirstRequestsRefusedError, NoAnswerError
from inferometer_loadgen.drive.prepare import DriverFactory, local_driver_factory
from inferometer_loadgen.fleet.answers import WorkerLostError, worker_lost_error
from inferometer_loadgen.fleet.driver_factory import FleetDriverFactory
from inferometer_loadgen.fleet.fleet import Fleet, FleetNotReadyError, open_fleet
from inferometer_loadgen.reporting.live_metrics import LiveMetrics
from inferometer_loadgen.reporting.progress_reporter import ProgressReporter
from inferometer_loadgen.reporting.report_writer import ReportSink
from inferometer_loadgen.requests.inputs import InputRefusedError, check_taken
from inferometer_loadgen.requests.pool import InputSources
from inferometer_loadgen.run.environment import environment_of, fell_back
from inferometer_loadgen.run.load_executor import LoadExecutor
from inferometer_loadgen.run.scenario import (
    CUTS_SHORT,
    RepeatMeasurements,
    ScenarioRepeat,
    StepContext,
    measure_repeat,
)
from inferometer_loadgen.run.step_telemetry import RunTelemetry
from inferometer_loadgen.schedule.steps import End, plan_steps
from inferometer_loadgen.search.repeats import summarize_repeats
from inferometer_loadgen.server.control_clients import RedirectedError
from inferometer_loadgen.server.control_plane import (
    ModelNotServedError,
    ServerDescription,
    ServerNotReadyError,
)
from inferometer_loadgen.server.servers import Servers, is_restarted
from inferometer_loadgen.verdict.measurement import ScenarioConditions
from inferometer_loadgen.wire import ConnectionFailedError
from inferometer_loadgen.wire.tls import TlsRefusedError

COMPLETE = Outcome(state="Complete", reason="Measured")


class NotAvailableError(ValueError):
    """The plan needs what this version does not support; the message says what."""


_FAULTS: dict[type[Exception], tuple[OutcomeState, str]] = {
    NotAvailableError: ("Refused", "NotAvailable"),
    InputRefusedError: ("Refused", "InputRefused"),
    ModelNotServedError: ("Refused", "ModelRefused"),
    RedirectedError: ("Refused", "Redirected"),
    TlsRefusedError: ("Refused", "TlsRefused"),
    FirstRequestsRefusedError: ("Refused", "RequestRefused"),
    ServerNotReadyError: ("Failed", "ServerNotReady"),
    NoAnswerError: ("Failed", "NoAnswer"),
    ConnectionFailedError: ("Failed", "ServerLost"),
    FleetNotReadyError: ("Failed", "WorkersNotReady"),
    WorkerLostError: ("Failed", "WorkerLost"),
}
"""The outcome of a run that raised one of these."""


@dataclass(frozen=True, slots=True)
class _Around:
    """The servers, and their descriptions from before the first query."""

    servers: Servers
    found: Sequence[ServerDescription]
    load_nodes: frozenset[str | None]
    """The nodes that load comes from; None if a node is not known."""


class MeasurementSession:
    """Executes one plan. `interrupt` ends it at once and keeps what was measured."""

    def __init__(self, plan: LoadPlan, reports: ReportSink, live: LiveMetrics) -> None:
        self._plan = plan
        self._live = live
        self._reports = reports
        self._interruption = _Interruption()
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
        is_driving = self._interruption.request()
        if not is_driving and self._task is not None:
            self._task.cancel()

    async def _outcome(self) -> Outcome:
        try:
            missing = unavailable(self._plan.run, place=self._plan.place)
            if missing:
                raise NotAvailableError(" ".join(missing))
            async with open_fleet(self._plan, self._report_web_page) as fleet:
                return await self._measure_all(fleet)
        except tuple(_FAULTS) as fault:
            state, reason = next(_FAULTS[kind] for kind in _FAULTS if isinstance(fault, kind))
            return Outcome(state=state, reason=reason, message=str(fault))

    def _report_web_page(self, port: int) -> None:
        self._reports.add(ListeningReport(fleet_web_port=port))

    async def _measure_all(self, fleet: Fleet | None) -> Outcome:
        servers = Servers(self._plan)
        spec = self._plan.run.spec
        progress = ProgressReporter(
            self._reports, len(spec.scenarios), self.interrupt, spec.validity.repeats
        )
        self._live.follow(progress.now)
        telemetry = RunTelemetry(self._plan)
        try:
            if fleet is not None:
                await fleet.wait_for_workers(progress.gathering)
            found = await servers.describe(progress.waiting)
            inputs = InputSources(self._plan.run.spec.load, self._plan.inputs_file, found[0].inputs)
            scenarios, notes = self._planned(inputs, found[0].max_batch_size)
            environment = environment_of(self._plan, found, notes)
            self._reports.add(EnvironmentReport(environment=environment))
            if fleet is None:
                drivers: DriverFactory = local_driver_factory(
                    self._plan, found[0], inputs, progress.prepared, self._begin
                )
            else:
                drivers = await FleetDriverFactory.set_up(
                    fleet, self._plan, found[0], progress.prepared, self._begin
                )
            context = self._context(drivers, progress, telemetry)
            around = _Around(servers, found, _load_nodes(fleet))
            for index, repeats in enumerate(scenarios):
                end = await self._measure(context, repeats, around)
                if end is End.SERVER_LOST:
                    return _lost(servers, self._interruption.last_error)
                if end is End.WORKER_LOST and fleet is not None and index < len(scenarios) - 1:
                    raise next(worker_lost_error(*each) for each in fleet.lost.items())
                if self._interruption.requested:
                    break
            return COMPLETE
        finally:
            progress.close()
            await telemetry.close()

    def _planned(
        self, inputs: InputSources, max_batch_size: int | None
    ) -> tuple[list[list[ScenarioRepeat]], list[str]]:
        """Make every step's source of requests, to refuse inputs that do not fit first."""
        spec = self._plan.run.spec
        notes: dict[str, None] = {}
        scenarios: list[list[ScenarioRepeat]] = []
        for index, scenario in enumerate(spec.scenarios):
            trace = self._plan.trace_files.get(scenario.name, "")
            steps = plan_steps(scenario, spec.validity, spec.load.seed, trace)
            for recorded in recorded_arrivals(scenario, trace):
                inputs.traces.arrivals(Path(recorded.file), recorded.milli_time_scale)
            for size in scenario.profile.request_batch_sizes:
                check_taken(size, max_batch_size)
                note = inputs.note(inputs.source(size), size)
                if note is not None:
                    notes[note] = None
            first = ScenarioRepeat(scenario, index, steps, spec.validity, spec.load.seed)
            repeats = range(1, spec.validity.repeats + 1)
            scenarios.append([replace(first, repeat=repeat) for repeat in repeats])
        return scenarios, list(notes)

    def _context(
        self, drivers: DriverFactory, progress: ProgressReporter, telemetry: RunTelemetry
    ) -> StepContext:
        load = LoadExecutor(
            drivers=drivers,
            server_process_ids=self._plan.server_process_ids,
            telemetry=telemetry,
            progress=progress,
            observers=[self._live, progress, self._interruption],
        )
        return StepContext({"load": load}, progress, lambda: self._interruption.requested)

    def _begin(self) -> None:
        if self.first_query_at is None:
            self.first_query_at = format_time(datetime.now(UTC))

    async def _measure(
        self, context: StepContext, repeats: Sequence[ScenarioRepeat], around: _Around
    ) -> End:
        """Measure, judge and report all repeats of one scenario; return why the last one ended."""
        end = End.DONE
        whole: list[ScenarioResult] = []
        cut_short = 0
        for repeat in repeats:
            measured = RepeatMeasurements()
            restarted = False
            try:
                before = await around.servers.starts()
                end = await measure_repeat(context, repeat, measured)
                if measured.cut_short is None:
                    restarted = is_restarted(before, await around.servers.starts())
            finally:
                if measured.measurements:
                    conditions = self._conditions(repeat.scenario, around, restarted=restarted)
                    result = measured.result(repeat, conditions)
                    self._reports.add(ScenarioReport(scenario=result))
                    if measured.cut_short is None:
                        whole.append(result)
                    else:
                        cut_short += 1
            if end in CUTS_SHORT:
                break
        if whole and len(whole) + cut_short > 1:
            self._reports.add(RepeatsReport(summary=summarize_repeats(whole, cut_short)))
        return end

    def _conditions(
        self,
        scenario: Scenario,
        around: _Around,
        *,
        restarted: bool,
    ) -> ScenarioConditions:
        plan, servers = self._plan, around.servers
        return ScenarioConditions(
            kind=scenario.kind,
            rules=plan.run.spec.validity.rules,
            spins=plan.run.spec.load.pacing == "Spin",
            colocated=any(servers.are_colocated(node) for node in around.load_nodes),
            not_guaranteed=servers.not_guaranteed(),
            cpu_count=len(os.sched_getaffinity(0)),
            compute_nodes_fell_back=max(
                fell_back(description) or 0 for description in around.found
            ),
            energy_requested=plan.run.spec.telemetry.power == "Auto",
            server_restarted=restarted,
        )


class _Interruption(StepObserver):
    """Ends the step that is driven once an interruption is requested."""

    def __init__(self) -> None:
        self.requested = False
        self.last_error = ""
        """Why the server that the last step lost could not be reached again."""
        self._driver: LoadDriver | None = None

    def request(self) -> bool:
        """Request it; return whether a step was being driven, which ends now."""
        self.requested = True
        if self._driver is not None:
            self._driver.end(End.INTERRUPTED)
        return self._driver is not None

    @override
    def begin(self, step: DrivenStep) -> None:
        self._driver = step.driver
        if self.requested:
            step.driver.end(End.INTERRUPTED)

    @override
    def end(self) -> None:
        if self._driver is not None:
            self.last_error = self._driver.last_error
        self._driver = None


def _load_nodes(fleet: Fleet | None) -> frozenset[str | None]:
    if fleet is None:
        return frozenset({node_name()})
    return frozenset(hello.node or None for hello in fleet.hellos.values())


def _lost(servers: Servers, trouble: str) -> Outcome:
    return Outcome(
        state="Failed",
        reason="ServerLost",
        message=(
            f"{servers.addresses} was lost: no connection could be made for 3 s. "
            f"{trouble and f'{trouble} '}What was measured until then is kept."
        ),
    )
