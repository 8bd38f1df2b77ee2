"""A result is downloaded from a load pod's log, also if the log is incomplete at first."""

import asyncio
import gc
import json
import tracemalloc
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, cast

import pytest

from inferometer_api.results.gzip_members import compress, decompress
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.results.result_transport import omission_lines
from inferometer_loadgen.schedule.arrivals import Stream, generator
from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.manifests.config_maps import result_config_map
from inferometer_operator.reconcile.observed import DownloadedResult
from inferometer_operator.reconcile.result_packer import PackedResult, ResultAdditions
from inferometer_operator.wiring.result_download import ResultDownload, download_result
from support.manifests import OWNER
from support.result_logs import document_of, result_log
from support.results import a_long_result, a_result

_POD: dict[str, Any] = {
    "metadata": {"name": "a-load-x", "namespace": "ns"},
    "spec": {"containers": [{"name": "loadgen"}]},
}
_DOCUMENT = a_result()
_WHOLE = result_log(_DOCUMENT)


class _Log:
    """Gives these answers one after another, the last one again and again."""

    def __init__(self, *answers: list[str] | Exception) -> None:
        self._answers = list(answers)
        self.requests = 0

    async def stream_log(self, *_: str) -> AsyncIterator[bytes]:
        self.requests += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        for line in answer:
            yield f"{line}\n".encode()


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
    assert document_of(it.attempt()) == _DOCUMENT
    assert it.now < 1.0


@pytest.mark.parametrize(
    "fault",
    [
        ApiUnreachableError("no route"),
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
    assert document_of(it.attempt()) == _DOCUMENT
    assert it.holds()


def test_a_lasting_gap_is_final_and_one_that_changes_is_not() -> None:
    """Nothing writes to the log of an ended container: what it lacks for 15 s never comes."""
    it = _Download(_Log(_WHOLE[:-1]))
    while it.attempt().passing:
        assert it.now < 15
    found = it.download.found
    assert found is not None
    assert (found.result, found.reason) == (None, "ResultIncomplete")
    assert found.fault
    assert 15 <= it.now < 30
    assert not it.download.is_due
    changing = _Download(_Log(*([[], _WHOLE[:-1]] * 10), _WHOLE))
    for _ in range(20):
        assert changing.attempt().passing
    assert document_of(changing.attempt()) == _DOCUMENT


def test_a_result_that_is_too_large_is_read_once() -> None:
    """What was left out on purpose will not come."""
    it = _Download(_Log(omission_lines("The result is too large.")))
    found = it.attempt()
    assert (found.reason, found.passing) == ("ResultTooLarge", False)
    assert not it.download.is_due


def test_the_end_of_a_result_searches_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run costs does not depend on how many objects the operator holds of others."""
    it = _Download(_Log(_WHOLE))
    assert it.attempt().result is not None
    monkeypatch.setattr(gc, "collect", lambda *_: pytest.fail("All objects are searched."))
    it.download.done = True
    it.download.release(None)
    assert it.download.found is None


class _EndlessLog:
    """A connection to a kubelet that knows no limit: every log goes on for ever."""

    def __init__(self, line: bytes) -> None:
        self._line = line
        self.bytes_read = 0

    @asynccontextmanager
    async def stream(self, *_: object, **__: object) -> AsyncIterator["_EndlessLog"]:
        yield self

    async def read(self, size: int) -> bytes:
        assert 0 < size <= 64 << 10
        self.bytes_read += size
        return (self._line * (size // len(self._line) + 1))[:size]


@pytest.mark.parametrize("line", [b"\n", b"x", b"a line\n"], ids=repr)
def test_an_endless_log_is_read_to_a_bound(line: bytes) -> None:
    """The operator reads 24 MiB and holds next to nothing of it."""
    log = _EndlessLog(line)
    reader = Reader(cast("ApiConnection", log))
    tracemalloc.start()
    try:
        found = asyncio.run(download_result(reader, _POD))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.result, found.reason) == (None, "ResultIncomplete")
    assert log.bytes_read == 24 << 20
    assert peak < 2 << 20


def test_a_document_that_would_fill_the_memory_is_not_parsed() -> None:
    """A log that a tenant wrote cannot end the operator."""
    head = b'{"kind":"BenchmarkResult","a":[' + b'{"a":1},' * 6_000 + b"{}]}"
    members = (b"{}", head, b"")
    gz = b64encode(b"".join(map(compress, members))).decode()
    digest = sha256(b"".join(members)).hexdigest()
    mark = "inferometer-result"
    begin = f"{mark} begin lines=1 bytes={len(head) + 2} sha256={digest}"
    found = _Download(_Log([begin, f"{mark} 1 {gz}", f"{mark} end sha256={digest}"])).attempt()
    assert (found.result, found.reason) == (None, "ResultTooLarge")


def _largest(kind: str) -> ResultDocument:
    """Return a document of nearly 8 MiB: as many windows as fit, or what cannot be compressed."""
    document = a_long_result()
    (scenario,) = document.scenarios
    (step,) = scenario.steps
    if kind == "windows":
        count = 7_900_000 // len(step.model_dump_json(exclude_none=True, include={"windows"}))
        changes: dict[str, Any] = {"windows": step.windows * count}
    else:
        noise = generator(7, Stream.INPUTS).bytes(5_500_000)
        changes = {"output_deviations": [b64encode(noise).decode()]}
    steps = [step.model_copy(update=changes)]
    return document.model_copy(update={"scenarios": [scenario.model_copy(update={"steps": steps})]})


def _request_bytes(packed: PackedResult, index: int) -> int:
    count, sha256 = packed.part_count, packed.sha256
    part = packed.part(index)
    made = result_config_map(part, OWNER, index=index, count=count, sha256=sha256)
    return len(json.dumps(made))


@pytest.mark.parametrize("kind", ["windows", "noise"])
def test_the_largest_result_is_kept_within_16_mib(kind: str) -> None:
    """The operator decompresses scenarios in steps, and holds one part more than it received."""
    document = _largest(kind)
    lines = result_log(document)
    added = ResultAdditions(Outcome(state="Complete", reason="Measured"))
    tracemalloc.start()
    try:
        found = asyncio.run(download_result(cast("Reader", _Log(lines)), _POD))
        assert found.result is not None
        packed = found.packing.pack(found.result, added)
        sizes = [_request_bytes(packed, index) for index in range(packed.part_count)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    gz = b"".join(packed.part(index) for index in range(packed.part_count))
    kept = ResultDocument.model_validate_json(decompress(gz))
    assert kept == document.model_copy(update={"outcome": added.outcome})
    assert packed.size_bytes > 7 << 20
    assert max(sizes) < 1 << 21
    assert peak <= 16 << 20


def test_no_run_holds_a_result_while_it_waits() -> None:
    """Others read theirs meanwhile; the log is read again."""
    it = _Download(_Log(_WHOLE))
    assert document_of(it.attempt()) == _DOCUMENT
    it.download.release(0.2)
    assert it.holds()
    it.download.release(2.0)
    assert not it.holds()
    assert it.download.found is None
    assert document_of(it.attempt()) == _DOCUMENT
    it.download.done = True
    it.download.release(0.2)
    assert not it.holds()
