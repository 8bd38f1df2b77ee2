"""How does a fleet make ready for a step, each worker for its share?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.scenarios.step_setting import Closed
from inferometer_loadgen.drive import LoadDriver
from inferometer_loadgen.fleet.fleet import Fleet, WebPageFeed
from inferometer_loadgen.fleet.fleet_driver import FleetDriver
from inferometer_loadgen.fleet.messages import (
    FirstQuery,
    PreparationProgress,
    Prepare,
    Ready,
    SetUp,
    SetUpDone,
    WorkerMessage,
)
from inferometer_loadgen.schedule.steps import LoadShare, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription


@dataclass(slots=True)
class FleetDriverFactory:
    """Has each worker of a fleet drive its share of every step. See Crew."""

    fleet: Fleet
    protocol: str
    told: Callable[[float], None]
    """Hears how far the making of requests is."""
    on_first_query: Callable[[], None]
    """Called before the first query of a step is sent."""
    _made: dict[int, float] = field(default_factory=dict)

    @classmethod
    async def set_up(
        cls,
        fleet: Fleet,
        plan: LoadPlan,
        described: ServerDescription,
        told: Callable[[float], None],
        on_first_query: Callable[[], None],
    ) -> Self:
        """Tell every worker what is measured; raises WorkerLostError, InputRefusedError."""
        # The token is for who may end the run; a worker has no business with it.
        words = plan.model_copy(update={"stop_token": ""}).model_dump_json(exclude_none=True)
        await fleet.request(SetUp(words, described), SetUpDone)
        return cls(fleet, plan.run.spec.load.protocol, told, on_first_query)

    async def prepare(self, scenario: str, plan: StepPlan) -> LoadDriver:
        """See Crew."""
        workers = participants(plan, self.fleet.workers)
        self._made = dict.fromkeys(workers, 0.0)

        def send() -> None:
            for worker in workers:
                share = LoadShare(worker, len(workers))
                self.fleet.send(Prepare(scenario, plan, share), [worker])

        with self.fleet.listening(self):
            ready = await self.fleet.collect(Ready, workers, send)
        name = f"{scenario} ({plan.label})" if plan.label else scenario
        show = None if self.fleet.web_port is None else self.fleet.show
        idle = self.fleet.workers[len(workers) :]
        return FleetDriver(self.fleet, plan, ready, WebPageFeed(name, self.protocol, show), idle)

    def on_message(self, worker: int, word: WorkerMessage) -> None:
        """Take what a worker says of its preparations."""
        match word:
            case FirstQuery():
                self.on_first_query()
            case PreparationProgress():
                self._made[worker] = word.fraction
                self.told(min(self._made.values()))
            case Ready():
                self._made[worker] = 1.0
            case _:
                return

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Whoever waits for its answer is told."""


def participants(plan: StepPlan, workers: Sequence[int]) -> Sequence[int]:
    """Return the workers that have a part in a step: no more than a closed loop has clients."""
    if isinstance(plan.loop, Closed) and plan.loop.clients is not None:
        return workers[: plan.loop.clients]
    return workers
