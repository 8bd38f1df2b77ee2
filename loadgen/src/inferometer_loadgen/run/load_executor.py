"""Executor that drives load at the servers."""

import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from inferometer_api.plan.launch import spans_url
from inferometer_api.plan.reports import ListeningReport
from inferometer_api.results.cold_start import ColdStartRecord
from inferometer_api.results.result import ScenarioResult, Step
from inferometer_api.scenarios.table import recorded_arrivals
from inferometer_api.spec.scenario import Scenario
from inferometer_loadgen.client.node import node_name
from inferometer_loadgen.drive.prepare import DriverFactory, local_driver_factory
from inferometer_loadgen.drive.sampling_factory import SamplingDriverFactory
from inferometer_loadgen.fleet.answers import worker_lost_error
from inferometer_loadgen.fleet.driver_factory import FleetDriverFactory
from inferometer_loadgen.fleet.fleet import Fleet, open_fleet
from inferometer_loadgen.record.request_log import RequestLog, open_request_log
from inferometer_loadgen.requests.encode import json_note
from inferometer_loadgen.requests.pool import InputSources
from inferometer_loadgen.run.environment import fell_back, not_obtained, unchecked_constraint
from inferometer_loadgen.run.executor import CUTS_SHORT, RunContext, ScenarioRepeat, StepEnd
from inferometer_loadgen.run.load_step import EndOnInterruption, LoadStepRunner
from inferometer_loadgen.run.mixed_models import MixedModels
from inferometer_loadgen.run.other_load import scope_of
from inferometer_loadgen.run.otlp_receiver import OtlpReceiver
from inferometer_loadgen.run.sampled_accuracy import AccuracySampling
from inferometer_loadgen.run.server_sampling import ServerSampling
from inferometer_loadgen.run.step_telemetry import RunTelemetry
from inferometer_loadgen.run.step_tracing import RunTracing, open_receiver
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.search.knee import find_knee
from inferometer_loadgen.search.steps import PeakSearch
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.verdict.judge import judge
from inferometer_loadgen.verdict.measurement import Measurement, ScenarioConditions


@asynccontextmanager
async def open_load_executor(run: RunContext) -> AsyncIterator["LoadExecutor"]:
    """Start the fleet, if there is one, and wait for its workers; end it all on exit.

    Raises WorkerLostError, and FleetNotReadyError if workers do not connect in time.
    """
    if run.plan.run.spec.load.workers > 1:
        run.progress.gathering(0.0, "")
    async with open_fleet(
        run.plan, lambda port: run.reports.add(ListeningReport(fleet_web_port=port))
    ) as fleet:
        if fleet is not None:
            await fleet.wait_for_workers(run.progress.gathering)
        port = run.plan.run.spec.load.receiver_port
        async with open_receiver(port, run.plan.place) as receiver:
            with (
                open_request_log(run.plan.request_log) as log,
                tempfile.TemporaryDirectory(prefix="inferometer-data-") as folder,
            ):
                executor = LoadExecutor(run, fleet, log, receiver, Path(folder))
                try:
                    yield executor
                finally:
                    await executor.close()


class LoadExecutor:
    """Drives load in this process or in a fleet; see Executor."""

    def __init__(
        self,
        run: RunContext,
        fleet: Fleet | None,
        request_log: RequestLog | None = None,
        receiver: OtlpReceiver | None = None,
        folder: Path = Path(),
    ) -> None:
        """`folder` is for unpacked data sets."""
        self._folder = folder
        self._samplings: dict[str, AccuracySampling] = {}
        self._run = run
        self._receiver = receiver
        self._request_log = request_log
        self._fleet = fleet
        self._telemetry: RunTelemetry | None = None
        self._descriptions: Sequence[ServerDescription] = ()
        self._unchecked_constraint = ""
        self._others: Mapping[str, ServerDescription] = {}
        self._steps: LoadStepRunner | None = None
        self._sampling: ServerSampling | None = None
        self._tracing: RunTracing | None = None

    async def close(self) -> None:
        """Close the connections to the agents, and those to the servers' statistics."""
        if self._tracing is not None:
            await self._tracing.close()
        if self._sampling is not None:
            await self._sampling.close()
        if self._telemetry is not None:
            await self._telemetry.close()

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Make every step's source of requests, to refuse inputs that do not fit first."""
        await self.close()
        self._run, self._telemetry = run, RunTelemetry(run.plan)
        first = descriptions[0]
        load = run.plan.run.spec.load
        mixed = await MixedModels.describe(run, first, [each.scenario for each in repeats])
        inputs = mixed.inputs(run.plan.model_name)
        notes = dict.fromkeys((*json_note(load, first.extensions), *mixed.notes()))
        for repeat in repeats:
            for recorded in recorded_arrivals(repeat.scenario, repeat.trace_file):
                inputs.files.arrivals(Path(recorded.file), recorded.milli_time_scale)
            notes.update(dict.fromkeys(mixed.check_inputs(repeat.scenario)))
            sampling = await AccuracySampling.prepare(run, repeat, first, self._folder)
            if sampling is not None:
                self._samplings[repeat.scenario.name] = sampling
        self._descriptions = descriptions
        self._others = {name: mixed.descriptions[name] for name in mixed.others}
        self._unchecked_constraint = unchecked_constraint(run.plan, first)
        self._sampling = ServerSampling(run.servers, descriptions, mixed.others)
        # The first connects and imports what later samples need.
        await self._sampling.sample()
        if load.tracing is not None:
            self._tracing = RunTracing(
                load.tracing,
                run.servers,
                descriptions,
                self._receiver,
                spans_url(run.plan.run, run.plan.place),
            )
            notes.update(dict.fromkeys(await self._tracing.prepare()))
        self._steps = LoadStepRunner(
            drivers=self._drivers(first, inputs, mixed),
            server_process_ids=run.plan.server_process_ids,
            telemetry=self._telemetry,
            sampling=self._sampling,
            progress=run.progress,
            observers=[run.live, run.progress, EndOnInterruption(run.interruption)],
            other_load=scope_of(run.plan, colocated=self._is_colocated()),
            tracing=self._tracing,
        )
        return list(notes)

    def start(self, repeat: ScenarioRepeat) -> "LoadRepeat":
        """Begin one repeat of a scenario; raises RuntimeError before `prepare`."""
        if self._steps is None:
            raise RuntimeError("A scenario was started before the load was prepared.")
        return LoadRepeat(
            repeat,
            self._steps,
            self._conditions(repeat),
            self._lost_worker,
            self._request_log,
            self._samplings.get(repeat.scenario.name),
        )

    def _drivers(
        self, description: ServerDescription, inputs: InputSources, mixed: MixedModels
    ) -> DriverFactory:
        run, fleet = self._run, self._fleet
        if fleet is not None:
            return FleetDriverFactory(
                fleet, run.plan, description, run.progress.report_preparation, run.on_first_query
            )
        drivers = local_driver_factory(
            run.plan, description, inputs, run.progress.report_preparation, run.on_first_query
        )
        drivers = replace(
            drivers, request_log=self._request_log, on_first_answers=run.on_first_answers
        )
        others = mixed.driver_factory(drivers)
        parts = {name: each.part(drivers, description) for name, each in self._samplings.items()}
        return SamplingDriverFactory(others, parts) if parts else others

    def _conditions(self, repeat: ScenarioRepeat) -> ScenarioConditions:
        spec, servers = self._run.plan.run.spec, self._run.servers
        return ScenarioConditions(
            kind=repeat.scenario.kind,
            rules=spec.validity.rules,
            single_window=spec.validity.repeats == 1,
            spins=spec.load.pacing == "Spin",
            colocated=self._is_colocated(),
            load_node_faults=tuple(
                each for each in self._run.plan.load_node_faults if each.node in self._load_nodes()
            ),
            not_guaranteed=servers.not_guaranteed(),
            cpu_count=len(os.sched_getaffinity(0)),
            compute_nodes_fell_back=max(fell_back(each) or 0 for each in self._descriptions),
            not_obtained=not_obtained(
                spec.server, self._descriptions, self._others_of(repeat.scenario)
            ),
            unready_server=next(
                (each.unready_server for each in self._descriptions if each.unready_server), ""
            ),
            energy_requested=spec.telemetry.power == "Auto",
            unchecked_constraint=self._unchecked_constraint,
        )

    def _others_of(self, scenario: Scenario) -> dict[str, ServerDescription]:
        """Return the further models that a scenario queries."""
        queried = {each.model for each in scenario.mix or ()}
        return {name: each for name, each in self._others.items() if name in queried}

    def _is_colocated(self) -> bool:
        return any(self._run.servers.are_colocated(node) for node in self._load_nodes())

    def _load_nodes(self) -> frozenset[str | None]:
        """Return the nodes that load comes from; None if a node is not known."""
        if self._fleet is None:
            return frozenset({node_name()})
        return frozenset(hello.node or None for hello in self._fleet.hellos.values())

    def _lost_worker(self) -> str:
        """Return which worker of the fleet was lost, and why; empty if none was."""
        lost = {} if self._fleet is None else self._fleet.lost
        return next((str(worker_lost_error(*each)) for each in lost.items()), "")


class LoadRepeat:
    """Measures one repeat under load: its planned steps, or a search; see RepeatExecution."""

    def __init__(
        self,
        repeat: ScenarioRepeat,
        steps: LoadStepRunner,
        conditions: ScenarioConditions,
        lost_worker: Callable[[], str],
        request_log: RequestLog | None = None,
        sampling: AccuracySampling | None = None,
    ) -> None:
        self._request_log = request_log
        self._sampling = sampling
        self._repeat = repeat
        self._steps = steps
        self._conditions = conditions
        self._lost_worker = lost_worker
        self._planned = iter(repeat.steps)
        goal = repeat.kind.search
        self._search = (
            None
            if goal is None
            else PeakSearch(goal(repeat.scenario.load_profile), repeat.validity, repeat.seed)
        )
        self._measurements: list[Measurement] = []

    def next_step(self) -> StepPlan | None:
        """Return the next planned step, or the one that the search chooses."""
        if self._search is None:
            return next(self._planned, None)
        return self._search.next_step(time.monotonic())

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Measure a step. Raises what `DriverFactory.prepare` raises."""
        name = self._repeat.scenario.name
        try:
            outcome = await self._steps.run(name, step)
        finally:
            if self._request_log is not None:
                self._request_log.write(name, self._repeat.repeat, step.label)
        if outcome.measurement is not None:
            self._measurements.append(outcome.measurement)
            if self._search is not None and outcome.end not in CUTS_SHORT:
                self._search.observe(outcome.measurement.step, outcome.over)
        is_lost = outcome.end is End.WORKER_LOST
        return StepEnd(outcome.end, self._lost_worker() if is_lost else outcome.last_error)

    @property
    def steps_so_far(self) -> Sequence[Step]:
        """The steps that were measured."""
        return [measurement.step for measurement in self._measurements]

    def judge(
        self,
        cut_short: End | None,
        *,
        server_restarted: bool,
        cold_start: ColdStartRecord | None = None,
    ) -> ScenarioResult | None:
        """Return the figures and the verdict; None if nothing was measured."""
        if not self._measurements:
            return None
        repeat = self._repeat
        steps = list(self.steps_so_far)
        peak = None if self._search is None else self._search.peak()
        sampled = None if self._sampling is None else self._sampling.result()
        conditions = replace(
            self._conditions,
            cut_short=cut_short,
            server_restarted=server_restarted,
            peak=peak,
            cold_start=cold_start,
            sampled=sampled,
        )
        return ScenarioResult(
            name=repeat.scenario.name,
            kind=repeat.scenario.kind,
            repeat=repeat.repeat,
            seed=repeat.seed,
            steps=steps,
            verdict=judge(self._measurements, conditions),
            peak=peak,
            knee=find_knee(steps) if repeat.kind.finds_knee else None,
            cold_start=cold_start,
            accuracy=sampled,
        )
