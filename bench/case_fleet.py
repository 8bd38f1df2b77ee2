"""The cases fleet-master and fleet-workers: the cost of a fleet by its size."""

import asyncio
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.fleet_workers import QUERIES_A_SECOND, TOKEN, a_second
from bench.model_files import TINY
from bench.null_server import null_server, require_null_server
from bench.paced import Rate, send_paced
from bench.processes import BenchError, cpu_seconds_of, start_child
from bench.servers import Server

from inferometer_api.plan.load_plan import LoadPlan, PlannedFleet
from inferometer_api.results.result import Step
from inferometer_api.scenarios.step_setting import Open, Steady
from inferometer_loadgen.fleet.carrier import LocustCarrier
from inferometer_loadgen.fleet.driver_factory import FleetDriverFactory
from inferometer_loadgen.fleet.fleet import Fleet
from inferometer_loadgen.fleet.fleet_driver import FleetDriver
from inferometer_loadgen.schedule.steps import End, StepPlan
from inferometer_loadgen.server.control_plane import ServerDescription
from support.load_runs import a_plan

SIZES = (10, 100, 300, 1000)
_FLEET = "Locust's master and the session"
_MOST_SECONDS = 60.0
_SECOND_NS = 1_000_000_000
_MICROSECONDS = Unit(" us", 0, scale=1e6)
_MILLISECONDS = Unit(" ms", 1, scale=1e3)
_SECONDS = Unit(" s", 2)
_KIBIBYTES = Unit(" KiB", 1, scale=2**-10)


def _of(figure: str, size: int) -> str:
    return f"{figure}, {size} workers"


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    del sides  # there is one
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield {_FLEET: lambda: _sizes(place)}


def _sizes(place: Place) -> Figures:
    found: dict[str, float] = {"bytes": len(a_second())}
    for size in SIZES:
        found |= asyncio.run(_measure(place, size))
    return found


async def _measure(place: Place, size: int) -> Figures:
    """Let simulated workers report for some seconds and return the cost."""
    planned = PlannedFleet(
        starts_workers=False, token=TOKEN, ready_deadline_seconds=int(_MOST_SECONDS)
    )
    async with Fleet.start(planned, size) as fleet:
        carrier = _locust_carrier(fleet)
        command = [sys.executable, "-m", "bench.fleet_workers", str(carrier.port), str(size)]
        with start_child("workers", command, core=place.server_core, folder=place.folder):
            return await _drive(fleet, place.turn_seconds, size)


def _locust_carrier(fleet: Fleet) -> LocustCarrier:
    if not isinstance(fleet.carrier, LocustCarrier):
        raise BenchError("The fleet is not carried by Locust.")
    return fleet.carrier


async def _drive(fleet: Fleet, seconds: float, size: int) -> Figures:
    carrier = _locust_carrier(fleet)
    await fleet.wait_for_workers(lambda _fraction, _detail: None)
    drivers = FleetDriverFactory(fleet, _plan(), _DESCRIBED, lambda _: None, lambda: None)
    await drivers.set_up()
    began = time.monotonic()
    driving = await drivers.prepare("s", _STEP)
    await driving.connect()
    rounds = time.monotonic() - began
    if not isinstance(driving, FleetDriver):
        raise BenchError("No fleet drives.")
    running = asyncio.create_task(driving.run())
    await _until(lambda: driving.recorder.last_second is not None)
    master, session, at = cpu_seconds_of(carrier.process_id), time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    passed = (time.monotonic() - at) * size
    master, session = cpu_seconds_of(carrier.process_id) - master, time.process_time() - session
    late_ns = max(worker.start_offset_nanoseconds for worker in driving.workers)
    answered = driving.recorder.answered
    driving.end(End.INTERRUPTED)
    await running
    await driving.close()
    if fleet.lost:
        worker, loss_reason = next(iter(fleet.lost.items()))
        raise BenchError(
            f"{len(fleet.lost)} of {size} simulated workers were lost (worker {worker}: "
            f"{loss_reason}): this machine is too busy for so many."
        )
    if answered < seconds * QUERIES_A_SECOND * size / 2:
        raise BenchError(f"Only {answered} queries of {size} workers were merged.")
    return {
        _of("master", size): master / passed,
        _of("session", size): session / passed,
        _of("rounds", size): rounds,
        _of("late", size): late_ns / _SECOND_NS,
    }


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _MOST_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise BenchError(f"No report arrived within {_MOST_SECONDS:g} s.")
        await asyncio.sleep(0.01)


def _plan() -> LoadPlan:
    return a_plan("grpc://127.0.0.1:1", {"server": {"targetQps": 1}}, load={"workers": 2})


_DESCRIBED = ServerDescription("", "", [], [], [], [])
_STEP = StepPlan(
    label="",
    batch_size=1,
    warm_up_ns=0,
    min_duration_ns=_SECOND_NS,
    max_duration_ns=_SECOND_NS,
    min_queries=1,
    loop=Open(Steady("Poisson", 1000)),
)


def _rows() -> Sequence[Row]:
    rows = (
        ("Locust's master, CPU per worker and second", "master", _MICROSECONDS),
        ("The session, CPU per worker and second", "session", _MICROSECONDS),
        ("Until all are prepared and connected", "rounds", _MILLISECONDS),
        ("The last begins its step late by", "late", _MILLISECONDS),
    )
    return [
        Row(_of(what, size), Source(_FLEET, _of(figure, size)), unit)
        for what, figure, unit in rows
        for size in SIZES
    ]


FLEET_MASTER = Case(
    name="fleet-master",
    title="What a fleet's master costs, by the number of workers",
    text=f"""\
Locust's master and the session of a fleet, with workers that do no work: one process plays them
by Locust's protocol, and all send, in the same moment of each second, a heartbeat and what a
second of {QUERIES_A_SECOND} queries comes to for one worker (latency, service time, dispatch
lag).

The master passes on, the session merges. A step's preparation is two rounds to all workers, one
of them with the plan of the step. They share two cores with the simulated workers, so the time
until all are prepared is longer than for a fleet on machines of its own.""",
    commands=(".venv/bin/python bench/run.py --case fleet-master",),
    sides=(Side(_FLEET),),
    stage=_stage,
    rows=(Row("A worker's report of a second", Source(_FLEET, "bytes"), _KIBIBYTES), *_rows()),
    is_pinned=False,
    minutes=4,
    repeats=3,
)


_QPS_OF_EACH = 500
_NUMBERS = (1, 2, 4)
_MANY = _NUMBERS[1:]
_ALONE = "1 worker"
_COST, _APART = "CPU seconds a request", "begin apart"
_NO_DEARER = (Bound("ratio", "at most", 1.05),)
_AT_ONCE = (Bound("figure", "at most", 0.005, over="every repeat"),)


def _workers(number: int) -> str:
    return _ALONE if number == 1 else f"{number} workers"


def _side_by_side(number: int) -> str:
    return f"{number} side by side"


@contextmanager
def _stage_of_workers(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    with null_server(place, TINY) as server:
        turns: dict[str, Turn] = {
            _workers(number): partial(_fleet, place, server, number) for number in _NUMBERS
        }
        for number in _MANY:
            turns[_side_by_side(number)] = partial(_apart, place, server, number)
        yield {name: turns[name] for name in sides}


def _fleet(place: Place, server: Server, workers: int) -> Figures:
    """Measure with a fleet; one worker is a load generator without one."""
    step = send_paced(place, server, Rate("HTTP", _QPS_OF_EACH * workers, workers=workers))
    begun = [each.start_offset_nanoseconds for each in step.workers] or [0]
    apart = (max(begun) - min(begun)) / _SECOND_NS
    return {_COST: _cost([step]), _APART: apart}


def _apart(place: Place, server: Server, number: int) -> Figures:
    """Measure with so many load generators at once that know nothing of each other."""
    rates = [Rate("HTTP", _QPS_OF_EACH, seed=seed) for seed in range(number)]
    with ThreadPoolExecutor(number) as threads:
        return {_COST: _cost(list(threads.map(partial(send_paced, place, server), rates)))}


def _cost(steps: Sequence[Step]) -> float:
    return sum(step.client_cpu_seconds for step in steps) / sum(
        step.counts.queries for step in steps
    )


def _cost_row(name: str, peer: str | None) -> Row:
    return Row(
        f"CPU time of a request, {name}",
        Source(name, _COST),
        Unit(" us", 1, scale=1e6),
        Source(peer, _COST) if peer else None,
        goal=_NO_DEARER if peer else (),
    )


FLEET_WORKERS = Case(
    name="fleet-workers",
    title="What a request costs, by the number of workers",
    text=f"""\
Each worker sends {_QPS_OF_EACH} queries a second (Poisson, HTTP) to the server in Go; 1 worker is
a load generator without a fleet. The cost is the CPU time, user and system, of the measuring
processes per query that they measured; the case fleet-master shows what Locust and the session
cost.

All workers share one core. Processes that share a core evict each other's code and data from its
caches: as many independent load generators *side by side* show what that alone costs. *Begin
apart* is between the first and the last worker that takes up the schedule.""",
    minutes=4,
    commands=(".venv/bin/python bench/run.py --case fleet-workers",),
    sides=tuple(
        Side(name, require_null_server)
        for name in (*map(_workers, _NUMBERS), *map(_side_by_side, _MANY))
    ),
    stage=_stage_of_workers,
    rows=(
        _cost_row(_ALONE, None),
        *(_cost_row(_workers(number), _ALONE) for number in _MANY),
        *(_cost_row(_workers(number), _side_by_side(number)) for number in _MANY),
        *(
            Row(
                f"Begin apart, {_workers(number)}",
                Source(_workers(number), _APART),
                _MILLISECONDS,
                goal=_AT_ONCE,
            )
            for number in _MANY
        ),
    ),
)
