"""The operator's clock shows the API server's time, and no step of any clock moves it far."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from inferometer_operator.cluster.server_clock import ApiServerClock

SERVER = datetime(2026, 1, 31, 12, tzinfo=UTC)


class _Clocks:
    """The operator's monotonic clock, and the API server's."""

    def __init__(self, local: datetime = SERVER) -> None:
        self.passed = 1000.0
        self.server = SERVER
        self.clock = ApiServerClock(lambda: self.passed, lambda: local)

    def pass_seconds(self, seconds: float) -> None:
        self.passed += seconds
        self.server += timedelta(seconds=seconds)

    def answer(self, *, takes: float = 0.0) -> None:
        """Answer a request: the server reads its clock at the end."""
        requested_at = self.passed
        self.pass_seconds(takes)
        self.clock.hear(
            format_datetime(self.server.replace(microsecond=0), usegmt=True), requested_at
        )

    def ahead_seconds(self) -> float:
        return (self.clock.now() - self.server).total_seconds()


@pytest.mark.parametrize("skew_seconds", [-310, 310, 0])
def test_the_first_answer_sets_the_clock(skew_seconds: float) -> None:
    """Whatever the node's time: within the second that a Date header leaves open."""
    clocks = _Clocks(SERVER + timedelta(seconds=skew_seconds))
    assert clocks.ahead_seconds() == skew_seconds
    clocks.answer()
    assert abs(clocks.ahead_seconds()) <= 0.5
    clocks.pass_seconds(3600)
    assert abs(clocks.ahead_seconds()) <= 0.5


@pytest.mark.parametrize("step_seconds", [-310, 310])
def test_a_step_of_the_servers_clock_moves_it_slowly(step_seconds: float) -> None:
    """By a hundredth of the time that passes, so that no deadline comes at once."""
    clocks = _Clocks()
    clocks.answer()
    clocks.server += timedelta(seconds=step_seconds)
    before = clocks.ahead_seconds()
    for _ in range(60):
        clocks.pass_seconds(1)
        clocks.answer()
    assert abs(clocks.ahead_seconds() - before) == pytest.approx(0.6, abs=0.001)
    for _ in range(400):
        clocks.pass_seconds(100)
        clocks.answer()
    assert abs(clocks.ahead_seconds()) <= 1


def test_slow_answers_and_whole_seconds_do_not_move_it() -> None:
    """The header's second and the way of an answer leave the time open: no reason to correct."""
    clocks = _Clocks()
    clocks.answer()
    before = clocks.ahead_seconds()
    for takes in (0.0, 3.0, 0.4, 14.0, 0.9):
        clocks.answer(takes=takes)
    assert clocks.ahead_seconds() == pytest.approx(before)


@pytest.mark.parametrize("date", [None, "", "yesterday"])
def test_an_answer_without_a_time_changes_nothing(date: str | None) -> None:
    """Some proxies send none."""
    clocks = _Clocks()
    clocks.clock.hear(date, clocks.passed)
    assert clocks.ahead_seconds() == 0
