"""Reconnecting: at once after an answer, with growing delays without one."""

import asyncio

import pytest

from inferometer_loadgen.wire.contract import ConnectionFailedError, RequestTarget
from inferometer_loadgen.wire.dialer import Dialer
from support.waiting import within_deadline

TARGET = RequestTarget("HTTP", "host", 80, "m")
sleep = asyncio.sleep


class Server:
    """Refuses a number of attempts, and records the delay before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
        self.refusals = refusals
        self.delays: list[float] = []
        self.back = asyncio.Event()
        self.now = 0.0
        self.dialer = Dialer(TARGET, self._connect, self.back.set, 1, lambda: self.now)
        monkeypatch.setattr(asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        await sleep(0)

    async def _connect(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError(111, "Connection refused")

    async def redialled(self, *, answered: bool) -> list[float]:
        """Lose the connection, and return the delays until it is back."""
        self.delays.clear()
        self.back.clear()
        self.dialer.redial(answered=answered)
        self.dialer.redial(answered=answered)
        async with within_deadline("the connection"):
            await self.back.wait()
        return self.delays[:]


def test_delays_double_up_to_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts at an absent server neither flood it nor come too late."""

    async def main() -> None:
        server = Server(monkeypatch, refusals=9)
        delays = await server.redialled(answered=True)
        assert delays == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]

    asyncio.run(main())


def test_the_last_error_is_reported_until_the_server_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver quotes it when it gives the server up."""
    troubles: list[str] = []

    async def main() -> None:
        server = Server(monkeypatch, refusals=2)
        dialer = server.dialer

        async def note(_: float) -> None:
            troubles.append(dialer.last_error)
            await sleep(0)

        monkeypatch.setattr(asyncio, "sleep", note)
        await server.redialled(answered=True)
        assert dialer.last_error == ""

    asyncio.run(main())
    assert len(troubles) == 2
    assert all("Connection refused" in each for each in troubles)


def test_a_server_that_only_accepts_is_redialled_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection lost without an answer does not reset the delay; one with an answer does."""

    async def main() -> None:
        server = Server(monkeypatch, refusals=0)
        assert [await server.redialled(answered=False) for _ in range(3)] == [[], [0.01], [0.02]]
        assert await server.redialled(answered=True) == []

    asyncio.run(main())


def test_a_server_that_closes_idle_connections_is_redialled_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A due query finds a connection, however often idle ones were closed before."""

    async def main() -> None:
        server = Server(monkeypatch, refusals=0)
        for _ in range(3):
            server.now += 0.2
            assert await server.redialled(answered=False) == []
        assert await server.redialled(answered=False) == [0.01]

    asyncio.run(main())


def test_the_error_of_a_failed_attempt_names_address_and_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failed attempt raises an error with host, port and reason."""

    async def main() -> None:
        await Server(monkeypatch, refusals=1).dialer.dial()

    with pytest.raises(ConnectionFailedError, match=r"to host:80 could not be opened: .*refused"):
        asyncio.run(main())


def test_stop_ends_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt under way is cancelled, and a later loss is ignored."""

    async def main() -> None:
        server = Server(monkeypatch, refusals=1_000_000)
        server.dialer.redial(answered=True)
        await sleep(0)
        await server.dialer.stop()
        left = server.refusals
        server.dialer.redial(answered=True)
        await sleep(0)
        assert server.refusals == left

    asyncio.run(main())
