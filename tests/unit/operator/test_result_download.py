"""A result is downloaded from a load pod's log, also if the log is incomplete at first."""

import asyncio
from typing import Any, cast

import pytest

from inferometer_api.results.result_transport import encode_for_log, omission_lines
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import DownloadedResult
from inferometer_operator.wiring.result_download import ResultDownload
from support.results import a_result

_POD: dict[str, Any] = {
    "metadata": {"name": "a-load-x", "namespace": "ns"},
    "spec": {"containers": [{"name": "loadgen"}]},
}
_DOCUMENT = a_result()
_WHOLE = encode_for_log(_DOCUMENT.model_dump_json(exclude_none=True).encode())


class _Log:
    """Gives these answers one after another, the last one again and again."""

    def __init__(self, *answers: list[str] | Exception) -> None:
        self._answers = list(answers)
        self.requests = 0

    async def read_log(self, *_: str) -> list[str]:
        self.requests += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


class _Download:
    """The attempts to download one run's result, by a clock that a test sets."""

    def __init__(self, log: _Log) -> None:
        self._log = log
        self.now = 0.0
        self.download = ResultDownload(asyncio.Semaphore(1), clock=lambda: self.now)

    def attempt(self) -> DownloadedResult:
        """Try once, when it is due."""
        self.now += self.download.next_seconds or 0.0
        assert self.download.is_due
        asyncio.run(self.download.download(cast("Reader", self._log), _POD))
        assert self.download.found is not None
        return self.download.found

    def holds(self) -> bool:
        """Whether other runs have to wait."""
        return self.download.slot.locked()


def test_a_log_that_is_not_written_to_its_end_is_read_again() -> None:
    """The runtime reports a container's end before the last lines are written."""
    it = _Download(_Log(_WHOLE[:-1], [], _WHOLE))
    assert it.attempt().passing
    assert it.attempt().passing
    assert it.attempt().document == _DOCUMENT
    assert it.now < 1.0


@pytest.mark.parametrize(
    "fault",
    [
        UnreachableError("no route"),
        *(ApiError(code, "", "no") for code in (400, 403, 404, 429, 500, 503)),
    ],
    ids=str,
)
def test_a_log_that_cannot_be_read_may_be_read_later(fault: Exception) -> None:
    """A kubelet that does not answer for hours, or does not know its pod yet, loses no result."""
    it = _Download(_Log(*[fault] * 200, _WHOLE))
    pauses = []
    for _ in range(200):
        before = it.now
        found = it.attempt()
        assert (found.passing, found.reason) == (True, "ResultLost")
        assert not it.holds()
        pauses.append(it.now - before)
    assert pauses[1:] == sorted(pauses[1:])
    assert pauses[-1] == 30.0
    assert it.attempt().document == _DOCUMENT
    assert it.holds()


def test_a_lasting_gap_is_final_and_one_that_changes_is_not() -> None:
    """Nothing writes to the log of an ended container: what it lacks for 15 s never comes."""
    it = _Download(_Log(_WHOLE[:-1]))
    while it.attempt().passing:
        assert it.now < 15
    found = it.download.found
    assert found is not None
    assert (found.document, found.reason) == (None, "ResultIncomplete")
    assert found.fault
    assert 15 <= it.now < 30
    assert not it.download.is_due
    changing = _Download(_Log(*([[], _WHOLE[:-1]] * 10), _WHOLE))
    for _ in range(20):
        assert changing.attempt().passing
    assert changing.attempt().document == _DOCUMENT


def test_a_result_that_is_too_large_is_read_once() -> None:
    """What was left out on purpose will not come."""
    it = _Download(_Log(omission_lines("The result is too large.")))
    found = it.attempt()
    assert (found.reason, found.passing) == ("ResultTooLarge", False)
    assert not it.download.is_due


def test_no_run_holds_a_result_while_it_waits() -> None:
    """Others read theirs meanwhile; the log is read again."""
    it = _Download(_Log(_WHOLE))
    assert it.attempt().document == _DOCUMENT
    it.download.release(0.2)
    assert it.holds()
    it.download.release(2.0)
    assert not it.holds()
    assert it.download.found is None
    assert it.attempt().document == _DOCUMENT
    it.download.done = True
    it.download.release(0.2)
    assert not it.holds()
