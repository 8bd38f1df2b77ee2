"""Executor of cold starts: times the first queries of a new server, then its steady latency."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from inferometer_api.results.cold_start import ColdStartRecord
from inferometer_api.results.result import ScenarioResult, nanoseconds_at
from inferometer_api.spec.scenario import ColdStart
from inferometer_loadgen.run.cold_start import FirstQueries, compose_record, read_phases
from inferometer_loadgen.run.executor import RunContext, ScenarioRepeat, StepEnd
from inferometer_loadgen.run.load_executor import LoadExecutor, LoadRepeat, open_load_executor
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription


class _FirstQueryWatch:
    """Notes when the first query of the current server was sent, and how long the first took."""

    def __init__(self) -> None:
        self.sent_microseconds: int | None = None
        self.latencies_ns: Sequence[int] = ()

    def note_send(self) -> None:
        if self.sent_microseconds is None:
            self.sent_microseconds = time.time_ns() // 1000

    def note_answers(self, latencies_ns: Sequence[int]) -> None:
        self.latencies_ns = latencies_ns


@asynccontextmanager
async def open_cold_start_executor(run: RunContext) -> AsyncIterator["ColdStartExecutor"]:
    """Open the executor of the load, which sends the queries."""
    async with open_load_executor(run) as load:
        yield ColdStartExecutor(load)


class ColdStartExecutor:
    """Measures new servers; see Executor."""

    def __init__(self, load: LoadExecutor) -> None:
        self._load = load
        self._run: RunContext | None = None
        self._first = _FirstQueryWatch()
        self._server: ServerDescription | None = None

    async def prepare(
        self,
        run: RunContext,
        descriptions: Sequence[ServerDescription],
        repeats: Sequence[ScenarioRepeat],
    ) -> Sequence[str]:
        """Prepare the load."""
        self._run, self._first = run, _FirstQueryWatch()
        self._server = descriptions[0]
        first, on_first_query = self._first, run.on_first_query

        def note_send() -> None:
            first.note_send()
            on_first_query()

        watched = replace(run, on_first_query=note_send, on_first_answers=first.note_answers)
        return await self._load.prepare(watched, descriptions, repeats)

    def start(self, repeat: ScenarioRepeat) -> "ColdStartRepeat":
        """Begin one repeat of a scenario; raises RuntimeError before `prepare`."""
        cold = repeat.scenario.cold_start
        if self._run is None or self._server is None or cold is None:
            raise RuntimeError("A cold start was started before it was prepared.")
        return ColdStartRepeat(self._load.start(repeat), self._run, cold, self._first, self._server)


class ColdStartRepeat:
    """Measures one repeat; see RepeatExecution."""

    def __init__(
        self,
        load: LoadRepeat,
        run: RunContext,
        cold: ColdStart,
        first: _FirstQueryWatch,
        server: ServerDescription,
    ) -> None:
        self._load = load
        self._run = run
        self._cold = cold
        self._first = first
        self._server = server

    def next_step(self) -> StepPlan | None:
        """Return the next planned step."""
        return self._load.next_step()

    async def run_step(self, step: StepPlan) -> StepEnd:
        """Send the first queries, and measure the step."""
        return await self._load.run_step(step)

    def judge(self, cut_short: End | None, *, server_restarted: bool) -> ScenarioResult | None:
        """Return the figures and the verdict, with the record of the start."""
        return self._load.judge(
            cut_short, server_restarted=server_restarted, cold_start=self._record()
        )

    def _record(self) -> ColdStartRecord | None:
        evidence = self._run.plan.servers[0].start
        sent = self._first.sent_microseconds
        if evidence is None or sent is None:
            return None
        steps = self._load.steps_so_far
        median = nanoseconds_at(steps[0].latency, 50.0) if steps else None
        server = self._server
        queries = FirstQueries(sent, self._first.latencies_ns, median, server.readiness)
        return compose_record(self._cold.state, evidence, read_phases(server.start_up), queries)
