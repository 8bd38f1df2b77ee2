"""Samples of the node agents around each step, on the same window as the load.

Each agent is sampled at both edges of the time without load, at both edges of the window, and
every second between.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_loadgen.drive import StepObserver
from inferometer_loadgen.nodes.energy import EnergyTerms, energy_terms
from inferometer_loadgen.nodes.window import (
    AgentAnswer,
    NodeWindow,
    StepAnswers,
    read_sample,
    window_of,
)
from inferometer_loadgen.record.bounded_series import MOST_ENTRIES, BoundedSeries
from inferometer_loadgen.telemetry_client import AgentClient

_MOST_LATE = 2
_EDGES = 3
"""Samples of the series besides those between: after the time without load, at begin and end."""


class RunTelemetry:
    """Samples the agents of a plan. Nothing here raises, whatever an agent does."""

    def __init__(self, plan: LoadPlan, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.terms = energy_terms(plan)
        has_no_energy = self.terms.disabled or self.terms.unmetered
        self._idle_seconds = 0 if has_no_energy else plan.run.spec.telemetry.idle_seconds
        self._clients = [AgentClient(agent, clock) for agent in plan.agents]

    def step(self, *, is_probe: bool = False) -> "StepTelemetry":
        """Return the observer of one step. It measures no idle power before a probe.

        A search has dozens of probes.
        """
        return StepTelemetry(self._clients, self.terms, 0 if is_probe else self._idle_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(client.close() for client in self._clients))


@dataclass(slots=True)
class _StepSamples:
    """The answers of one agent around the step so far."""

    client: AgentClient
    idle: list[AgentAnswer] = field(default_factory=list)
    begin: list[AgentAnswer] = field(default_factory=list)
    between: BoundedSeries[AgentAnswer] = field(
        default_factory=lambda: BoundedSeries(MOST_ENTRIES - _EDGES)
    )
    end: list[AgentAnswer] = field(default_factory=list)

    def sample_edge(self, edge: list[AgentAnswer]) -> None:
        """Sample at an edge; give up an agent that is late at two edges in a row."""
        client = self.client

        def keep(answer: AgentAnswer) -> None:
            edge.append(answer)
            client.late_in_a_row = client.late_in_a_row + 1 if answer.timed_out else 0
            if client.late_in_a_row == _MOST_LATE:
                client.given_up = answer.fault

        client.sample(keep)

    def answers(self) -> StepAnswers:
        """Return all answers."""
        before, after = (*self.idle, None, None)[:2]
        return StepAnswers(
            agent=self.client.agent,
            idle=None if before is None or after is None else (before, after),
            begin=next(iter(self.begin), None),
            between=self.between.entries,
            end=next(iter(self.end), None),
        )


class StepTelemetry(StepObserver):
    """Samples the agents around one step."""

    def __init__(
        self, clients: Sequence[AgentClient], terms: EnergyTerms, idle_seconds: float
    ) -> None:
        self.terms = terms
        self._idle_seconds = idle_seconds
        self._samples = [_StepSamples(client) for client in clients]
        self._running = False

    async def measure_idle(self, on_idle: Callable[[float], None]) -> None:
        """Spend the time without load if an agent has a source of energy; connect in any case.

        `on_idle` is called with its seconds when it begins.
        """
        if await self._sample_idle() and self._idle_seconds:
            on_idle(self._idle_seconds)
            await asyncio.sleep(self._idle_seconds)
            await self._sample_idle()

    @override
    def begin_window(self) -> None:
        self._running = True
        for samples in self._samples:
            samples.sample_edge(samples.begin)

    @override
    def second(self) -> None:
        """Sample each agent that has answered its previous request."""
        if not self._running:
            return
        for samples in self._samples:
            if samples.between.is_due() and not samples.client.busy:
                samples.client.sample(samples.between.add)

    @override
    def end_window(self) -> None:
        self._running = False
        for samples in self._samples:
            samples.sample_edge(samples.end)

    async def wait_until_settled(self) -> None:
        """Wait for the answers."""
        await asyncio.gather(*(samples.client.wait_until_settled() for samples in self._samples))

    def windows(self, begin_ns: int) -> list[NodeWindow]:
        """Return what the agents answered around a window that began at `begin_ns`.

        `begin_ns` is a time of the clients' clock.
        """
        return [window_of(samples.answers(), begin_ns) for samples in self._samples]

    async def _sample_idle(self) -> bool:
        """Sample all agents; return whether one of them has a source of energy."""
        for samples in self._samples:
            samples.sample_edge(samples.idle)
        await self.wait_until_settled()
        found = [read_sample(samples.idle[-1])[0] for samples in self._samples]
        return any(sample is not None and sample.energy for sample in found)
