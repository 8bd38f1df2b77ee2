"""The case operator-scale: what an operator costs that keeps and queues many runs."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count

import psutil
from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import BenchError
from bench.scale_cluster import (
    KEPT,
    LEASE_SECONDS,
    FirstLoads,
    Requests,
    WatchedRuns,
    audit_bytes,
    delete_all,
    peak_bytes,
    run_list,
    run_names,
    settings,
    shared_stage,
    wait_for,
)

from support.operator_process import OperatorProcess
from support.stage import Stage

_MANY, _FEW = 500, 10
_MEASURED = 32
"""Runs that are measured while so many others wait: a tick of CPU time is 10 ms."""
_SIDES = {_MANY: f"{_MANY} runs wait", _FEW: f"{_FEW} runs wait"}
_NUMBERS = count()

_START = "start to leading"
_START_CPU = "CPU of the start"
_MEMORY = "most resident memory"
_MISSED = "renewals missed"
_APPLIED = "applied: positions right"
_DELETED = "deleted: positions right"
_REACTION = "reaction, p99"
_QUEUED_READS, _QUEUED_WRITES = "reads of a queued run", "writes of a queued run"
_QUEUED_CPU = "CPU of a quiet minute"
_READS, _WRITES, _CPU = "reads of a run", "writes of a run", "CPU of a run"

_SECONDS = Unit(" s", 2)
_MILLISECONDS = Unit(" ms", 0, 1000)
_MIB = Unit(" MiB", 0, 2**-20)
_COUNT = Unit("", 1)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    yield {
        name: partial(_turn, waiting, place.turn_seconds)
        for waiting, name in _SIDES.items()
        if name in sides
    }


def _turn(waiting: int, quiet_seconds: float) -> Figures:
    """Measure an operator from its start, which finds so many runs waiting."""
    stage, prefix = shared_stage(), f"queued{next(_NUMBERS)}"
    burst = f"{prefix}burst"
    loads = FirstLoads(stage)
    watched = WatchedRuns(stage.api, stage.namespace, (prefix, burst))
    watched.start()
    # One runs, and those that are measured later wait until then.
    numbers = range(1 + waiting + _MEASURED)
    stage.control_plane.kubectl("create", "-f", "-", stdin=run_list(stage, prefix, numbers))
    wait_for(lambda: len(watched.of(prefix)) == len(numbers), "The runs")
    began = audit_bytes(stage)
    operator, start_seconds = _start(stage)
    start_cpu_seconds = _cpu_seconds(operator)
    try:
        wait_for(watched.positions_are_right, "The positions of those that wait")
        figures = {_START: start_seconds, _START_CPU: start_cpu_seconds}
        if waiting == _MANY:
            figures |= _burst(stage, watched, prefix, burst)
        figures |= {_QUEUED_CPU: _quiet_cpu_seconds(operator, quiet_seconds)}
        figures |= _measured_runs(stage, watched, operator, loads)
        found = Requests.since(stage, began)
        names = watched.waiting()
        figures |= {
            _MISSED: found.missed_renewals(),
            _QUEUED_READS: found.most_in_a_minute(names, writes=False),
            _QUEUED_WRITES: found.most_in_a_minute(names, writes=True),
            _MEMORY: peak_bytes(operator.pid),
        }
        if operator.exit_code is not None:
            raise BenchError(f"The operator ended: {operator.log.read_text()[-2000:]}")
    finally:
        operator.close()
        stage.api.delete("Lease", stage.namespace, "inferometer-operator")
        delete_all(stage, prefix)
        delete_all(stage, burst)
    wait_for(lambda: not watched.runs, "The end of the runs")
    return figures


def _start(stage: Stage) -> tuple[OperatorProcess, float]:
    """Start an operator; return it and how long it took until it led and knew every run."""
    began = time.monotonic()
    words = ("--lease-seconds", str(LEASE_SECONDS))
    operator = stage.begin_operator(*words, **settings())
    operator.wait_ready()
    operator.wait_for_log("runs_listed")
    return operator, time.monotonic() - began


def _burst(stage: Stage, watched: WatchedRuns, prefix: str, burst: str) -> Figures:
    """Apply and delete many runs in one command each."""
    runs = run_list(stage, burst, range(_MANY))
    kubectl = stage.control_plane.kubectl
    kubectl("apply", "-f", "-", stdin=runs)
    applied_at = time.monotonic()
    wait_for(
        lambda: len(watched.of(burst)) == _MANY and watched.positions_are_right(),
        "The positions of those that were applied",
    )
    applied_seconds = time.monotonic() - applied_at
    gone = _from_front_and_middle(prefix, burst)
    kubectl("delete", "benchmarkruns", "-n", stage.namespace, "--wait=false", *gone)
    deleted_at = time.monotonic()
    wait_for(
        lambda: watched.runs.keys().isdisjoint(gone) and watched.positions_are_right(),
        "The positions of those that stay",
    )
    reactions = sorted(
        watched.answered[name] - at for name, at in watched.created.items() if burst in name
    )
    return {
        _APPLIED: applied_seconds,
        _DELETED: time.monotonic() - deleted_at,
        _REACTION: reactions[int(0.99 * len(reactions))],
    }


def _from_front_and_middle(prefix: str, burst: str) -> list[str]:
    """Return the names of half of those that wait, so that every one that stays moves.

    They are the oldest but for those that are to be measured, and every second of the youngest.
    """
    first = 1 + _MEASURED
    oldest = run_names(prefix, range(first, first + _MANY // 2))
    return [*oldest, *run_names(burst, range(0, _MANY, 2))]


def _quiet_cpu_seconds(operator: OperatorProcess, seconds: float) -> float:
    """Return the operator's CPU time of a minute in which nothing happens."""
    before = _cpu_seconds(operator)
    time.sleep(seconds)
    return (_cpu_seconds(operator) - before) * 60 / seconds


def _measured_runs(
    stage: Stage, watched: WatchedRuns, operator: OperatorProcess, loads: FirstLoads
) -> Figures:
    """Let runs measure one after the other; return what each cost."""
    before, began = _cpu_seconds(operator), audit_bytes(stage)
    loads.release(1 + _MEASURED)
    wait_for(lambda: watched.finished() == 1 + _MEASURED, "The end of the measured runs")
    cpu_seconds = _cpu_seconds(operator) - before
    counted = Requests.since(stage, began).of_work(watched.waiting())
    each = 1 + _MEASURED
    return {
        _READS: counted["reads"] / each,
        _WRITES: counted["writes"] / each,
        _CPU: cpu_seconds / each,
    }


def _cpu_seconds(operator: OperatorProcess) -> float:
    times = psutil.Process(operator.pid).cpu_times()
    return float(times.user + times.system)


def _row(what: str, figure: str, unit: Unit, most: float | None = None) -> Row:
    goal = () if most is None else (Bound("figure", "at most", most),)
    return Row(what, Source(_SIDES[_MANY], figure), unit, goal=goal)


def _compared(what: str, figure: str, unit: Unit) -> Row:
    return Row(
        what,
        Source(_SIDES[_MANY], figure),
        unit,
        Source(_SIDES[_FEW], figure),
        (Bound("ratio", "at most", 1.2),),
    )


OPERATOR_SCALE = Case(
    name="operator-scale",
    title=f"The operator with {KEPT:,} kept and {_MANY} queued runs",
    text=f"""\
One operator at a real etcd, API server and controller-manager, which hold {KEPT:,} finished runs
of 6 KB each. It starts while {_MANY} further runs wait, and leads once it has listed all and
hears every watch. Then {_MANY} more runs are applied by one `kubectl apply`, and {_MANY} are
deleted by one `kubectl delete`, from the front and the middle of the queue; the times count from
the end of the command until the status of each run that waits has its right position.

The reaction is the time from when a watch shows one of the applied runs until it shows its first
status. After a quiet minute {_MEASURED + 1} runs measure one after the other on played nodes, at
once and without any load.

Requests are those in the API server's audit log: for a queued run the most in any minute of the
turn, for a measured one the mean of these runs. A renewal is missed if it fails, or comes an
interval ({LEASE_SECONDS / 5:g} s) late. Memory is the most resident memory of the whole turn. The
peer is the same operator while {_FEW} runs wait. The API server takes most of the CPU time of the
same cores.""",
    commands=("make bench CASE=operator-scale",),
    sides=tuple(Side(name) for name in _SIDES.values()),
    stage=_stage,
    minutes=20,
    rows=(
        _row("From the start until it leads", _START, _SECONDS, 10),
        _row("Of that, CPU time of the operator", _START_CPU, _SECONDS),
        _row("Most resident memory", _MEMORY, _MIB, 160 * 2**20),
        _row("Renewals of the Lease that were missed", _MISSED, _COUNT, 0),
        _row(f"{_MANY} runs applied: all positions right after", _APPLIED, _SECONDS, 10),
        _row(f"{_MANY} runs deleted: all positions right after", _DELETED, _SECONDS, 10),
        _row("Meanwhile, from a run's creation to its first status, p99", _REACTION, _SECONDS, 1),
        _row("Reads of a queued run in a minute, at most", _QUEUED_READS, _COUNT, 2),
        _row("Writes of a queued run in a minute, at most", _QUEUED_WRITES, _COUNT, 2),
        _row("CPU time of a quiet minute", _QUEUED_CPU, _MILLISECONDS),
        _row("Reads of a measured run", _READS, _COUNT, 25),
        _row("Writes of a measured run", _WRITES, _COUNT, 22),
        _compared("The same reads", _READS, _COUNT),
        _compared("The same writes", _WRITES, _COUNT),
        _compared("CPU time of a measured run", _CPU, _MILLISECONDS),
    ),
    repeats=3,
    seconds=60.0,
    is_pinned=False,
)
