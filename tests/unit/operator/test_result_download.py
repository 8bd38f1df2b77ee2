"""A result is downloaded from a load pod's log, also if the log is incomplete at first."""

import asyncio
from typing import Any, cast

import pytest

from inferometer_api.results.result_transport import encode_for_log, omission_lines
from inferometer_operator.cluster.errors import UnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import DownloadedResult
from inferometer_operator.wiring import result_download
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


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_download, "_PAUSES_SECONDS", (0.0, 0.0))


def _collected(log: _Log) -> DownloadedResult:
    return asyncio.run(result_download.download_result(cast("Reader", log), _POD))


def test_a_log_that_is_not_written_to_its_end_is_read_again() -> None:
    """The runtime reports a container's end before the last lines are written."""
    log = _Log(_WHOLE[:-1], [], _WHOLE)
    assert _collected(log).document == _DOCUMENT
    assert log.requests == 3


def test_an_unreadable_log_is_read_again() -> None:
    """A kubelet that does not answer once loses no result."""
    assert _collected(_Log(UnreachableError("no route"), _WHOLE)).document == _DOCUMENT


def test_a_lasting_gap_is_reported() -> None:
    """After the last attempt the fault is what the last log lacked."""
    log = _Log(_WHOLE[:-1])
    found = _collected(log)
    assert (found.document, found.reason) == (None, "ResultIncomplete")
    assert found.fault
    assert log.requests == 3


def test_a_result_that_is_too_large_is_read_once() -> None:
    """What was left out on purpose will not come."""
    log = _Log(omission_lines("The result is too large."))
    assert _collected(log).reason == "ResultTooLarge"
    assert log.requests == 1
