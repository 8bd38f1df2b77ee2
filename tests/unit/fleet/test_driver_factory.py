"""The master of a fleet gives its workers a plan without the token that stops the run."""

import asyncio
from typing import cast

from inferometer_api.plan.load_plan import LoadPlan, PlannedServer
from inferometer_loadgen.fleet.driver_factory import FleetDriverFactory
from inferometer_loadgen.fleet.fleet import Fleet
from inferometer_loadgen.fleet.messages import Order, SetUp, SetUpDone
from inferometer_loadgen.server.control_plane import ServerDescription
from support.results import a_run

_MASTERS = "of-the-master"


class _RecordedFleet:
    """Two workers that are set up at once."""

    def __init__(self) -> None:
        self.workers = range(2)
        self.orders: list[Order] = []

    async def request(self, order: Order, _: type[SetUpDone]) -> None:
        """Keep an order."""
        self.orders.append(order)


def test_workers_get_the_plan_without_the_token_that_stops_the_run() -> None:
    """It goes over the network once, and is otherwise the master's."""
    fleet = _RecordedFleet()
    plan = LoadPlan(
        run=a_run(),
        place="Cluster",
        launched=True,
        servers=[PlannedServer(url="http://10.0.0.1:8000")],
        model_name="resnet50",
        stop_token=_MASTERS,
    )
    description = ServerDescription("", "", [], [], [], [])
    factory = FleetDriverFactory(
        cast("Fleet", fleet), plan, description, lambda _: None, lambda: None
    )

    async def set_up() -> None:
        await factory.set_up()
        await factory.set_up()

    asyncio.run(set_up())
    (order,) = fleet.orders
    assert isinstance(order, SetUp)
    assert _MASTERS not in order.plan
    sent = LoadPlan.model_validate_json(order.plan)
    assert sent.model_copy(update={"stop_token": _MASTERS}) == plan
