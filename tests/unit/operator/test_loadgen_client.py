"""A load pod may answer anything: the operator reads little of it, and goes on."""

import asyncio
import contextlib
import gzip
import tracemalloc
from collections.abc import Iterable

import aiohttp
import pytest
from aiohttp import web
from pydantic import ValidationError

from inferometer_api.plan.load_report import PROGRESS_BYTES, LoadReport
from inferometer_operator.cluster.loadgen_client import LoadgenClient

_PIECE = b"a" * 65_536
_PIECES = 1024
"""64 MiB."""


async def _report(pieces: Iterable[bytes], encoding: str) -> tuple[LoadReport | None, int]:
    """Return what a client makes of this answer, and the most memory that it took."""

    async def progress(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Encoding": encoding})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                await answer.write(piece)
        return answer

    application = web.Application()
    application.router.add_get("/progress", progress)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession() as session:
            tracemalloc.start()
            found = await LoadgenClient(session, port).report("127.0.0.1")
            return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        await runner.cleanup()


def test_a_report_is_read() -> None:
    """The other tests would show nothing if no answer were read."""
    found, _ = asyncio.run(_report([b'{"progress":', b'{"stage":"Measuring"}}'], "identity"))
    assert found is not None
    assert found.progress is not None
    assert found.progress.stage == "Measuring"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_answer_that_would_fill_the_memory_is_not_read(encoding: str) -> None:
    """Neither 64 MiB, nor the 64 KiB that they are when compressed."""
    pieces = [_PIECE] * _PIECES
    if encoding == "gzip":
        pieces = [gzip.compress(b"".join(pieces))]
    found, taken = asyncio.run(_report(pieces, encoding))
    assert found is None
    assert taken < 8 * PROGRESS_BYTES


@pytest.mark.parametrize(
    "damage",
    [b'"scenarios":[' + b"{}," * 300_000, b'"progress":{"serverPods":[' + b"1," * 500_000],
    ids=["scenarios", "server pods"],
)
def test_a_damaged_report_takes_little_memory(damage: bytes) -> None:
    """The errors of a list of 1 MiB took 330 MiB, which ended the operator."""
    ends = b"{}]}" if b"scenarios" in damage else b"1]}}"
    text = b"{" + damage + ends
    assert len(text) < PROGRESS_BYTES
    with pytest.raises(ValidationError) as caught:
        LoadReport.read_json(text)
    assert caught.value.error_count() <= 8
    found, _ = asyncio.run(_report([text], "identity"))
    assert found is None
