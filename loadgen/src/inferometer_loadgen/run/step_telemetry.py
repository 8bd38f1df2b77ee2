"""When are the node agents asked, so that energy and load have one window?

At both edges of the time without load, at both edges of the window, and each second between.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_loadgen.nodes.energy import EnergyTerms, energy_terms
from inferometer_loadgen.nodes.window import (
    AgentAnswer,
    NodeWindow,
    StepAnswers,
    read_sample,
    window_of,
)
from inferometer_loadgen.record.thinned import MOST_ENTRIES, Thinned
from inferometer_loadgen.telemetry_client import AgentClient

_MOST_LATE = 2
_EDGES = 3
"""Samples of the series beside those between: after the time without load, at begin and end."""


class Idling(Protocol):
    """Who is told that no load is sent."""

    def idle(self, seconds: float) -> None:
        """Show that so many seconds begin now."""


class RunTelemetry:
    """Asks the agents of a plan. Nothing here raises, whatever an agent does."""

    def __init__(self, plan: LoadPlan, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.terms = energy_terms(plan)
        in_vain = self.terms.disabled or self.terms.unmetered
        self._idle_seconds = 0 if in_vain else plan.run.spec.telemetry.idle_seconds
        self._lines = [AgentClient(agent, clock) for agent in plan.agents]

    def step(self, *, is_probe: bool = False) -> "StepTelemetry":
        """Return what asks the agents around one step; before a probe no idle power is measured.

        A search has dozens of them.
        """
        return StepTelemetry(self._lines, self.terms, 0 if is_probe else self._idle_seconds)

    async def close(self) -> None:
        """Hang up."""
        await asyncio.gather(*(line.close() for line in self._lines))


@dataclass(slots=True)
class _Kept:
    """What one agent answered around the step so far."""

    line: AgentClient
    idle: list[AgentAnswer] = field(default_factory=list)
    begin: list[AgentAnswer] = field(default_factory=list)
    between: Thinned[AgentAnswer] = field(default_factory=lambda: Thinned(MOST_ENTRIES - _EDGES))
    end: list[AgentAnswer] = field(default_factory=list)

    def ask_edge(self, kept: list[AgentAnswer]) -> None:
        """Ask at an edge; an agent that is late at two in a row is asked no more."""
        line = self.line

        def take(answer: AgentAnswer) -> None:
            kept.append(answer)
            line.late_in_a_row = line.late_in_a_row + 1 if answer.timed_out else 0
            if line.late_in_a_row == _MOST_LATE:
                line.given_up = answer.fault

        line.ask(take)

    def answers(self) -> StepAnswers:
        """Return all of it."""
        before, after = (*self.idle, None, None)[:2]
        return StepAnswers(
            agent=self.line.agent,
            idle=None if before is None or after is None else (before, after),
            begin=next(iter(self.begin), None),
            between=self.between.entries,
            end=next(iter(self.end), None),
        )


class StepTelemetry:
    """Asks the agents around one step: `idle`, then `begin`, `second` each second, and `over`."""

    def __init__(
        self, lines: Sequence[AgentClient], terms: EnergyTerms, idle_seconds: float
    ) -> None:
        self.terms = terms
        self._idle_seconds = idle_seconds
        self._kept = [_Kept(line) for line in lines]
        self._running = False

    async def idle(self, board: Idling) -> None:
        """Spend the time without load, where an agent has a source of energy; connect anyhow."""
        if await self._ask_idle() and self._idle_seconds:
            board.idle(self._idle_seconds)
            await asyncio.sleep(self._idle_seconds)
            await self._ask_idle()

    def begin(self) -> None:
        """Ask at the window's begin."""
        self._running = True
        for kept in self._kept:
            kept.ask_edge(kept.begin)

    def second(self) -> None:
        """Ask within the window, whoever has answered the question before."""
        if not self._running:
            return
        for kept in self._kept:
            if kept.between.is_due() and not kept.line.busy:
                kept.line.ask(kept.between.add)

    def over(self) -> None:
        """Ask at the window's end."""
        self._running = False
        for kept in self._kept:
            kept.ask_edge(kept.end)

    async def settled(self) -> None:
        """Wait for the answers."""
        await asyncio.gather(*(kept.line.settled() for kept in self._kept))

    def found(self, begin_ns: int) -> list[NodeWindow]:
        """Read what the agents answered around a window that began then, by the meter's clock."""
        return [window_of(kept.answers(), begin_ns) for kept in self._kept]

    async def _ask_idle(self) -> bool:
        """Ask everybody; say whether somebody has a source of energy."""
        for kept in self._kept:
            kept.ask_edge(kept.idle)
        await self.settled()
        samples = [read_sample(kept.idle[-1])[0] for kept in self._kept]
        return any(sample is not None and sample.energy for sample in samples)
