"""In which order is a plan carried out, and what is reported on the way?"""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from inferometer_api.availability import unavailable
from inferometer_api.document import milli
from inferometer_api.plan import Listening, LoadPlan, Measured, Surroundings
from inferometer_api.result import Outcome, OutcomeState, ScenarioResult
from inferometer_api.scenario import Scenario
from inferometer_loadgen.board import Board
from inferometer_loadgen.control import Described, ModelRefusedError, ServerNotReadyError
from inferometer_loadgen.control_clients import RedirectedError
from inferometer_loadgen.crew import Crew, Hand
from inferometer_loadgen.drive import Driving
from inferometer_loadgen.encode import BINARY_EXTENSION, Encoder
from inferometer_loadgen.fleet.crew import FleetCrew
from inferometer_loadgen.fleet.fleet import Fleet, FleetNotReadyError
from inferometer_loadgen.fleet.gathering import fleet_of
from inferometer_loadgen.fleet.round import WorkerLostError, lost
from inferometer_loadgen.inputs import InputRefusedError
from inferometer_loadgen.live import Live
from inferometer_loadgen.meter import Meter
from inferometer_loadgen.node import node_name
from inferometer_loadgen.pool import Inputs
from inferometer_loadgen.report import Reports
from inferometer_loadgen.servers import Servers
from inferometer_loadgen.step_run import Bench, run_step
from inferometer_loadgen.steps import End, StepPlan, steps_of
from inferometer_loadgen.surroundings import fell_back, surroundings
from inferometer_loadgen.trace import read_trace
from inferometer_loadgen.trial import NoAnswerError, RequestRefusedError
from inferometer_loadgen.verdict.breaches import Conditions, Measurement
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.wire import ConnectionFailedError
from inferometer_loadgen.wire.tls import TlsRefusedError

COMPLETE = Outcome(state="Complete", reason="Measured")


class NotAvailableError(ValueError):
    """The plan asks for what this version does not do; the message says what."""


_FAULTS: dict[type[Exception], tuple[OutcomeState, str]] = {
    NotAvailableError: ("Refused", "NotAvailable"),
    InputRefusedError: ("Refused", "InputRefused"),
    ModelRefusedError: ("Refused", "ModelRefused"),
    RedirectedError: ("Refused", "Redirected"),
    TlsRefusedError: ("Refused", "TlsRefused"),
    RequestRefusedError: ("Refused", "RequestRefused"),
    ServerNotReadyError: ("Failed", "ServerNotReady"),
    NoAnswerError: ("Failed", "NoAnswer"),
    ConnectionFailedError: ("Failed", "ServerLost"),
    FleetNotReadyError: ("Failed", "WorkersNotReady"),
    WorkerLostError: ("Failed", "WorkerLost"),
}
"""How a run ends that meets one of these."""

_CUTS_SHORT = frozenset({End.SERVER_LOST, End.WORKER_LOST, End.INTERRUPTED})

PlannedScenario = tuple[Scenario, list[StepPlan]]


class Session:
    """Carries out one plan. `interrupt` ends it at once and keeps what was measured."""

    def __init__(self, plan: LoadPlan, reports: Reports, live: Live) -> None:
        self._plan = plan
        self._live = live
        self._reports = reports
        self._driver: Driving | None = None
        self._interrupted = False
        self._task: asyncio.Task[Outcome] | None = None
        self.first_query_at: str | None = None
        """When the first query was sent: RFC 3339, in UTC; None where none was."""

    async def run(self) -> Outcome | None:
        """Measure all scenarios and return how that ended; None where it was interrupted."""
        self._task = asyncio.create_task(self._outcome())
        try:
            outcome = await self._task
        except asyncio.CancelledError:
            return None
        return None if self._interrupted else outcome

    def interrupt(self) -> None:
        """End the measurement now, or whatever is done before one; only the first call counts."""
        if self._interrupted:
            return
        self._interrupted = True
        if self._driver is not None:
            self._driver.end(End.INTERRUPTED)
        elif self._task is not None:
            self._task.cancel()

    async def _outcome(self) -> Outcome:
        try:
            missing = unavailable(self._plan.run, place=self._plan.place)
            if missing:
                raise NotAvailableError(" ".join(missing))
            async with fleet_of(self._plan, self._tell_web_page) as fleet:
                return await self._measure_all(fleet)
        except tuple(_FAULTS) as fault:
            state, reason = next(_FAULTS[kind] for kind in _FAULTS if isinstance(fault, kind))
            return Outcome(state=state, reason=reason, message=str(fault))

    def _tell_web_page(self, port: int) -> None:
        self._reports.tell(Listening(fleet_web_port=port))

    async def _measure_all(self, fleet: Fleet | None) -> Outcome:
        servers = Servers(self._plan)
        board = Board(self._reports, len(self._plan.run.spec.scenarios), self.interrupt)
        self._live.follow(board.now)
        meter = Meter(self._plan)
        try:
            if fleet is not None:
                await fleet.gathered(board.gathering)
            found = await servers.described(board)
            inputs = Inputs(self._plan.run.spec.load, self._plan.inputs_file, found[0].inputs)
            scenarios, notes = self._planned(inputs)
            environment = surroundings(self._plan, found, notes)
            self._reports.tell(Surroundings(environment=environment))
            if fleet is None:
                crew: Crew = self._hand(servers, found[0], inputs, board)
            else:
                crew = await FleetCrew.set_up(
                    fleet, self._plan, found[0], board.prepared, self._begin
                )
            bench = self._bench(crew, board, meter)
            for index, planned in enumerate(scenarios):
                end = await self._measure(bench, planned, index, found, servers)
                if end is End.SERVER_LOST:
                    return _lost(servers)
                if end is End.WORKER_LOST and fleet is not None and index < len(scenarios) - 1:
                    raise next(lost(*each) for each in fleet.lost.items())
                if self._interrupted:
                    break
            return COMPLETE
        finally:
            board.close()
            await meter.close()

    def _planned(self, inputs: Inputs) -> tuple[list[PlannedScenario], list[str]]:
        """Make every step's source of requests, so that what does not fit is refused first."""
        spec = self._plan.run.spec
        notes: dict[str, None] = {}
        scenarios: list[PlannedScenario] = []
        for scenario in spec.scenarios:
            trace = self._plan.trace_files.get(scenario.name, "")
            steps = steps_of(scenario, spec.validity, spec.load.seed, trace)
            if scenario.trace is not None:
                read_trace(Path(trace), milli(scenario.trace.time_scale))
            for step in steps:
                note = inputs.note(inputs.source(step.batch_size), step.batch_size)
                if note is not None:
                    notes[note] = None
            scenarios.append((scenario, steps))
        return scenarios, list(notes)

    def _hand(self, servers: Servers, described: Described, inputs: Inputs, board: Board) -> Hand:
        plan = self._plan
        load = plan.run.spec.load
        return Hand(
            load=load,
            targets=servers.targets(),
            encoder=Encoder(
                load.protocol,
                plan.model_name,
                plan.model_version,
                described.inputs,
                described.outputs,
                binary=BINARY_EXTENSION in described.extensions,
            ),
            outputs=described.outputs,
            source=inputs.source,
            told=board.prepared,
            on_first_query=self._begin,
        )

    def _bench(self, crew: Crew, board: Board, meter: Meter) -> Bench:
        return Bench(
            crew=crew,
            server_process_ids=self._plan.server_process_ids,
            meter=meter,
            board=board,
            live=self._live,
            on_driver=self._hold,
        )

    def _begin(self) -> None:
        if self.first_query_at is None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.first_query_at = now.replace("+00:00", "Z")

    def _hold(self, driver: Driving | None) -> None:
        self._driver = driver
        if driver is not None and self._interrupted:
            driver.end(End.INTERRUPTED)

    async def _measure(
        self,
        bench: Bench,
        planned: PlannedScenario,
        index: int,
        found: Sequence[Described],
        servers: Servers,
    ) -> End:
        """Measure, judge and report one scenario; return why it ended."""
        scenario, _ = planned

        def conditions(cut_short: End | None, *, restarted: bool = False) -> Conditions:
            return self._conditions(
                scenario, servers, found, cut_short=cut_short, restarted=restarted
            )

        measured: list[Measurement] = []
        try:
            end = await self._run_steps(bench, planned, index, measured)
        except asyncio.CancelledError:
            self._tell(scenario, measured, conditions(End.INTERRUPTED))
            raise
        except ConnectionFailedError:
            self._tell(scenario, measured, conditions(End.SERVER_LOST))
            raise
        cut_short = end if end in _CUTS_SHORT else None
        restarted = False
        try:
            restarted = cut_short is None and await servers.are_restarted(found)
        finally:
            self._tell(scenario, measured, conditions(cut_short, restarted=restarted))
        return end

    async def _run_steps(
        self, bench: Bench, planned: PlannedScenario, index: int, measured: list[Measurement]
    ) -> End:
        """Add what each step measured, until one is cut short; return why the last one ended."""
        scenario, steps = planned
        end = End.DONE
        for step in steps:
            if self._interrupted:  # after the last answer of the step before
                return End.INTERRUPTED
            bench.board.preparing(scenario.name, step.label, index)
            measurement, end = await run_step(bench, scenario.name, step)
            if measurement is not None:
                measured.append(measurement)
            if end in _CUTS_SHORT:
                break
        return end

    def _tell(
        self, scenario: Scenario, measured: Sequence[Measurement], conditions: Conditions
    ) -> None:
        if not measured:
            return
        self._reports.tell(
            Measured(
                scenario=ScenarioResult(
                    name=scenario.name,
                    kind=scenario.kind,
                    seed=self._plan.run.spec.load.seed,
                    steps=[measurement.step for measurement in measured],
                    verdict=judge(measured, conditions),
                )
            )
        )

    def _conditions(
        self,
        scenario: Scenario,
        servers: Servers,
        found: Sequence[Described],
        *,
        cut_short: End | None,
        restarted: bool,
    ) -> Conditions:
        plan = self._plan
        return Conditions(
            kind=scenario.kind,
            rules=plan.run.spec.validity.rules,
            spins=plan.run.spec.load.pacing == "Spin",
            colocated=servers.are_colocated(node_name()),
            not_guaranteed=servers.not_guaranteed(),
            cpu_count=len(os.sched_getaffinity(0)),
            compute_nodes_fell_back=max(fell_back(described) or 0 for described in found),
            power_asked=plan.run.spec.telemetry.power == "Auto",
            server_restarted=restarted,
            cut_short=cut_short,
        )


def _lost(servers: Servers) -> Outcome:
    return Outcome(
        state="Failed",
        reason="ServerLost",
        message=(
            f"{servers.addresses} was lost: no connection could be made for 3 s. What was measured "
            f"until then is kept."
        ),
    )
