"""Who drives the steps of a run: this process, or the fleet that was asked for?"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from inferometer_api.plan.load_plan import LoadPlan, PlannedFleet
from inferometer_loadgen.fleet.fleet import Fleet


@asynccontextmanager
async def fleet_of(
    plan: LoadPlan, on_web_page: Callable[[int], None]
) -> AsyncIterator[Fleet | None]:
    """Start the fleet of a plan, and end it at last; None where one process drives.

    `on_web_page` is told the port of Locust's web page, where there is one.
    Raises WorkerLostError where Locust's master cannot listen.
    """
    workers = plan.run.spec.load.workers
    if workers == 1:
        yield None
        return
    async with Fleet.started(plan.fleet or PlannedFleet(), workers) as fleet:
        if fleet.web_port is not None:
            on_web_page(fleet.web_port)
        yield fleet
