"""Watch over this process: throttling, waiting for the CPU, steal, clock jumps."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from inferometer_api.results.result import ClientHealth
from inferometer_loadgen.schedule.steps import SECOND_NS
from inferometer_models.control_groups import own_groups

_CLOCK_TRIES = 8
_CLOCK_READ_WITHIN_NS = 50_000
_STEAL = 8
"""The column of a CPU's line in /proc/stat with the time that the hypervisor took away."""

Clock = Callable[[], int]
Figure = TypeVar("Figure", int, float)


class ClientWatch:
    """Counts from `begin` on. It counts the waiting of the calling thread.

    `root` contains the machine's files; both clocks return nanoseconds.
    """

    def __init__(
        self, root: Path = Path("/"), wall: Clock = time.time_ns, steady: Clock = time.monotonic_ns
    ) -> None:
        self._root = root
        self._wall, self._steady = wall, steady
        self.begin()

    def begin(self) -> None:
        """Count from now on, in the current control group."""
        self._limits = [each.folder / "cpu.stat" for each in own_groups("cpu", self._root)]
        self._throttled, self._waited, self._stolen = self._read()
        self._offset_ns = self._offset()
        self._jump_ns = 0

    def second(self) -> None:
        """Compare the clocks."""
        offset_ns = self._offset()
        jump_ns = offset_ns - self._offset_ns
        self._offset_ns = offset_ns
        if abs(jump_ns) > abs(self._jump_ns):
            self._jump_ns = jump_ns

    def facts(self) -> ClientHealth:
        """Return the health of the process since `begin`."""
        self.second()
        throttled, waited, stolen = self._read()
        return ClientHealth(
            throttled_seconds=_since(self._throttled, throttled),
            runnable_wait_seconds=_since(self._waited, waited),
            steal_seconds=_since(self._stolen, stolen),
            cpu_count=len(os.sched_getaffinity(0)),
            clock_jump_nanoseconds=self._jump_ns,
        )

    def _read(self) -> tuple[float | None, float | None, float | None]:
        throttled = [_throttled_seconds(_text(path)) for path in self._limits]
        known = [seconds for seconds in throttled if seconds is not None]
        waited = _text(self._root / "proc/thread-self/schedstat").split()
        stolen = list(_stolen_ticks(_text(self._root / "proc/stat")))
        return (
            sum(known) if known else None,
            int(waited[1]) / SECOND_NS if len(waited) > 1 else None,
            sum(stolen) / os.sysconf("SC_CLK_TCK") if stolen else None,
        )

    def _offset(self) -> int:
        """Return the wall clock minus the steady one, from the closest pair of readings."""
        best = (-1, 0)
        for _ in range(_CLOCK_TRIES):
            before = self._steady()
            wall = self._wall()
            took = self._steady() - before
            if best[0] < 0 or took < best[0]:
                best = (took, wall - before - took // 2)
            if took < _CLOCK_READ_WITHIN_NS:
                break
        return best[1]


def worst(facts: Sequence[ClientHealth]) -> ClientHealth:
    """Return the worst figures of several processes, as of the workers of a fleet."""
    stolen = max(facts, key=_stolen_share)
    return ClientHealth(
        throttled_seconds=_most(each.throttled_seconds for each in facts),
        runnable_wait_seconds=_most(each.runnable_wait_seconds for each in facts),
        steal_seconds=stolen.steal_seconds,
        cpu_count=stolen.cpu_count,
        wake_up_lag_nanoseconds=_most(each.wake_up_lag_nanoseconds for each in facts),
        wake_up_lag_max_nanoseconds=_most(each.wake_up_lag_max_nanoseconds for each in facts),
        clock_jump_nanoseconds=max((each.clock_jump_nanoseconds for each in facts), key=abs),
    )


def _stolen_share(facts: ClientHealth) -> float:
    return (facts.steal_seconds or 0.0) / max(1, facts.cpu_count or 0)


def _most(figures: Iterator[Figure | None]) -> Figure | None:
    return max((each for each in figures if each is not None), default=None)


def _since(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)


def _throttled_seconds(text: str) -> float | None:
    """Return the seconds in `cpu.stat`: microseconds in control groups v2, nanoseconds in v1."""
    for line in text.splitlines():
        match line.split():
            case ["throttled_usec", number]:
                return int(number) / 1_000_000
            case ["throttled_time", number]:
                return int(number) / SECOND_NS
            case _:
                pass
    return None


def _stolen_ticks(text: str) -> Iterator[int]:
    """Yield the stolen ticks of each CPU that this process may use."""
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    for line in text.splitlines():
        name, *columns = line.split()
        if name in usable and len(columns) >= _STEAL:
            yield int(columns[_STEAL - 1])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
