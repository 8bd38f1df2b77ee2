"""Prepares the steps of a fleet: each worker gets its share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
    """Lets each worker of a fleet drive its share of every step. See DriverFactory."""

    fleet: Fleet
    plan: LoadPlan
    description: ServerDescription
    report_progress: Callable[[float], None]
    """Gets the share of the requests that is prepared, 0 to 1."""
    on_first_query: Callable[[], None]
    """Called before the first query of a step is sent."""
    _is_set_up: bool = False
    _prepared: dict[int, float] = field(default_factory=dict)

    async def set_up(self) -> None:
        """Send the run's plan to every worker, once; raises WorkerLostError, InputRefusedError."""
        if self._is_set_up:
            return
        # The token authorizes ending the run; workers do not need it.
        plan = self.plan.model_copy(update={"stop_token": ""})
        encoded = plan.model_dump_json(exclude_none=True)
        await self.fleet.request(SetUp(encoded, self.description), SetUpDone)
        self._is_set_up = True

    async def prepare(self, scenario: str, plan: StepPlan) -> LoadDriver:
        """Prepare the driver of a step, after `set_up`."""
        await self.set_up()
        workers = participants(plan, self.fleet.workers)
        self._prepared = dict.fromkeys(workers, 0.0)

        def send() -> None:
            for worker in workers:
                share = LoadShare(worker, len(workers))
                self.fleet.send(Prepare(scenario, plan, share), [worker])

        with self.fleet.listening(self):
            ready = await self.fleet.collect(Ready, workers, send)
        name = f"{scenario} ({plan.label})" if plan.label else scenario
        show = None if self.fleet.web_port is None else self.fleet.show
        idle = self.fleet.workers[len(workers) :]
        return FleetDriver(
            self.fleet, plan, ready, WebPageFeed(name, self.plan.run.spec.load.protocol, show), idle
        )

    def on_message(self, worker: int, message: WorkerMessage) -> None:
        """Take a worker's report of its preparations."""
        match message:
            case FirstQuery():
                self.on_first_query()
            case PreparationProgress():
                self._prepared[worker] = message.fraction
                self.report_progress(min(self._prepared.values()))
            case Ready():
                self._prepared[worker] = 1.0
            case _:
                return

    def on_lost(self, worker: int, loss_reason: str) -> None:
        """Do nothing: the request for its answer fails."""


def participants(plan: StepPlan, workers: Sequence[int]) -> Sequence[int]:
    """Return the workers with a share of a step: at most one for each client of a closed loop."""
    if isinstance(plan.loop, Closed) and plan.loop.clients is not None:
        return workers[: plan.loop.clients]
    return workers
