"""A pacer wakes the driver at its time, never early, and replies are read meanwhile."""

import asyncio
import socket
import time
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace

import pytest
import uvloop

from inferometer_loadgen.client import pace
from inferometer_loadgen.client.pace import Pacer, SpinPacer, TimerPacer
from support.waiting import DEADLINE_SECONDS, until, within_deadline
from support.wire_client import run

Pacers = Callable[[asyncio.AbstractEventLoop, Callable[[], None]], Pacer]
BOTH = pytest.mark.parametrize("made", [TimerPacer, SpinPacer])


async def woken(made: Pacers, *waits_ns: int) -> list[int]:
    """Return by how many nanoseconds each wake-up was late, when armed for one after the other."""
    loop = asyncio.get_running_loop()
    late: list[int] = []
    left = list(waits_ns)
    done = loop.create_future()
    due = 0

    def arm() -> None:
        nonlocal due
        due = time.monotonic_ns() + left.pop(0)
        pacer.arm(due)

    def wake() -> None:
        late.append(time.monotonic_ns() - due)
        if left:
            arm()
        else:
            done.set_result(None)

    pacer = made(loop, wake)
    arm()
    try:
        async with within_deadline(f"{len(left)} of {len(waits_ns)} wake-ups"):
            await done
    finally:
        pacer.close()
    return late


@BOTH
def test_no_waiter_is_woken_too_early(made: Pacers) -> None:
    """However near or far the time is, or long past, it has come when the driver is woken."""
    waits = [0, 1, 5_000, 9_000, 50_000, 260_000, 3_000_000, -1_000_000_000, 40_000] * 5
    late = uvloop.run(woken(made, *waits))
    assert len(late) == len(waits)
    assert min(late) >= 0


@BOTH
def test_only_the_last_time_counts(made: Pacers) -> None:
    """A pacer that is armed anew wakes at the new time, earlier or later than the old."""

    async def twice(first_ns: int, second_ns: int) -> list[int]:
        loop = asyncio.get_running_loop()
        woken_ns: list[int] = []

        def wake() -> None:
            woken_ns.append(time.monotonic_ns())
            pacer.close()

        pacer = made(loop, wake)
        begin = time.monotonic_ns()
        pacer.arm(begin + first_ns)
        pacer.arm(begin + second_ns)
        await until(lambda: bool(woken_ns), "a wake-up")
        return [each - begin for each in woken_ns]

    far = 600_000_000_000
    for first, second in ((100_000, 5_000_000), (far, 1_000_000), (50_000, 100_000)):
        (found,) = run(twice(first, second))
        assert found >= second


@BOTH
def test_a_pacer_that_is_armed_anew_when_it_has_expired_holds_nothing_up(made: Pacers) -> None:
    """What was about to come for the old time does not wait for the new one."""

    async def held_up() -> bool:
        loop = asyncio.get_running_loop()
        turned_ns: list[int] = []
        due = time.monotonic_ns() + round(DEADLINE_SECONDS * 1e9)

        def arm_anew() -> None:
            ours.recv(1)
            pacer.arm(due)
            loop.call_soon(lambda: turned_ns.append(time.monotonic_ns()))

        pacer = made(loop, lambda: None)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            loop.add_reader(ours, arm_anew)
            await asyncio.sleep(0)
            # What is read first became readable first: the socket, then the timer.
            theirs.send(b"x")
            first = time.monotonic_ns() + 500_000
            pacer.arm(first)
            while time.monotonic_ns() < first + 500_000:
                pass
            await until(lambda: bool(turned_ns), "the next turn of the loop")
            loop.remove_reader(ours)
        pacer.close()
        return turned_ns[0] < due

    assert run(held_up())


@BOTH
def test_a_closed_pacer_wakes_no_waiter(made: Pacers) -> None:
    """After close nothing comes, even if it was about to: another, due later, is woken alone."""

    async def closed() -> list[str]:
        loop = asyncio.get_running_loop()
        woken: list[str] = []

        def wake_later() -> None:
            woken.append("later")
            later.close()

        pacer = made(loop, lambda: woken.append("closed"))
        later = made(loop, wake_later)
        due = time.monotonic_ns() + 100_000
        pacer.arm(due)
        pacer.close()
        pacer.close()
        later.arm(due + 5_000_000)
        await until(lambda: "later" in woken, "the later wake-up")
        return woken

    assert uvloop.run(closed()) == ["later"]


def test_replies_are_read_while_it_spins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes within the last quarter of a millisecond is read before the time has come."""

    async def handled() -> list[str]:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        microseconds = count()
        found: list[str] = []

        def now_ns() -> int:
            if (now := next(microseconds)) == 100:
                theirs.send(b"x")
            return 1000 * now

        def read() -> None:
            ours.recv(1)
            found.append("a reply")

        def wake() -> None:
            found.append("the time")
            pacer.close()

        with ours, theirs:
            ours.setblocking(False)
            loop.add_reader(ours, read)
            monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic_ns=now_ns))
            pacer = SpinPacer(loop, wake)
            pacer.arm(200_000)
            await until(lambda: "the time" in found, "a wake-up")
            loop.remove_reader(ours)
        return found

    assert run(handled()) == ["a reply", "the time"]
