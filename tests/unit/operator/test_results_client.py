"""Deliveries carry the current token, know refusals from outages, and spare a lost service."""

import asyncio
import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from typing_extensions import override

from inferometer_api.results.service_paths import EXPLORER, ingest_path, reuse_path
from inferometer_api.suite.reuse import ReusableResult, ReuseQuery, ReuseRequest
from inferometer_operator.cluster.results_client import DeliveryError, ResultsClient
from inferometer_operator.settings import ResultsServiceSettings


@dataclass
class _Service:
    """Answers each delivery with the next status."""

    statuses: list[int]
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Answer one delivery."""
        token = request.headers["Authorization"]
        self.seen.append((request.path, token, await request.read()))
        status = self.statuses.pop(0)
        fields = {"id": "0123abcd"} if status < 300 else {"error": f"It was {status}."}
        return web.json_response(fields, status=status)


async def _read() -> bytes:
    return b"gz"


async def _deliveries(service: _Service, folder: Path, *times: float) -> list[Any]:
    """Deliver at these times; return the ID or the error of each."""
    token = folder / "token"
    application = web.Application()
    application.router.add_post("/{path:.*}", service.take)
    runner = web.AppRunner(application, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    now = [0.0]
    came: list[Any] = []
    async with aiohttp.ClientSession() as session:
        settings = ResultsServiceSettings(url=f"http://{host}:{port}", token_file=str(token))
        client = ResultsClient(session, settings, clock=lambda: now[0])
        for number, moment in enumerate(times):
            now[0] = moment
            token.write_text(f"token-{number}\n")
            try:
                came.append(await client.deliver("bench", _read))
            except DeliveryError as error:
                came.append(error)
    await runner.cleanup()
    return came


def test_a_delivery_names_its_namespace_and_carries_the_token_of_the_moment(
    tmp_path: Path,
) -> None:
    """Tokens of service accounts change while the operator runs."""
    service = _Service([201, 200])
    assert asyncio.run(_deliveries(service, tmp_path, 0, 1)) == ["0123abcd", "0123abcd"]
    path = f"{EXPLORER}{ingest_path('bench')}"
    assert service.seen == [(path, "Bearer token-0", b"gz"), (path, "Bearer token-1", b"gz")]


@pytest.mark.parametrize(
    ("status", "refused"),
    [(401, True), (403, True), (413, True), (422, True), (429, False), (500, False), (503, False)],
)
def test_a_refusal_is_told_from_an_outage(tmp_path: Path, status: int, *, refused: bool) -> None:
    """The message quotes the service."""
    (error,) = asyncio.run(_deliveries(_Service([status]), tmp_path, 0))
    assert error.refused is refused
    assert f"It was {status}." in str(error)


def test_a_service_that_is_away_is_left_alone_for_a_while(tmp_path: Path) -> None:
    """Other runs learn of the fault without a request; a refusal concerns one result alone."""
    service = _Service([503, 422, 201])
    came = asyncio.run(_deliveries(service, tmp_path, 0, 5, 11, 12))
    assert [str(each).endswith("It was 503.") for each in came[:2]] == [True, True]
    assert came[2].refused
    assert came[3] == "0123abcd"
    assert len(service.seen) == 3


def test_one_document_is_read_at_a_time(tmp_path: Path) -> None:
    """A service that returns meets all runs that waited for it."""
    reading: list[int] = []

    async def read() -> bytes:
        reading.append(1)
        await asyncio.sleep(0)
        assert len(reading) == 1
        return b"gz"

    class _Client(ResultsClient):
        @override
        async def _send(self, path: str, gz: bytes | bytearray, most_bytes: int) -> bytes:
            await asyncio.sleep(0)
            reading.pop()
            return json.dumps({"id": f"{path}-{len(gz)}"}).encode()

    async def deliver() -> list[str]:
        async with aiohttp.ClientSession() as session:
            settings = ResultsServiceSettings(
                url="http://127.0.0.1:9", token_file=str(tmp_path / "token")
            )
            client = _Client(session, settings)
            return await asyncio.gather(*(client.deliver("bench", read) for _ in range(5)))

    assert asyncio.run(deliver()) == [f"{ingest_path('bench')}-2"] * 5


def test_a_missing_token_is_an_outage(tmp_path: Path) -> None:
    """The message names the file's fault."""
    settings = ResultsServiceSettings(
        url="http://127.0.0.1:9", token_file=str(tmp_path / "missing")
    )

    async def deliver() -> None:
        async with aiohttp.ClientSession() as session:
            await ResultsClient(session, settings).deliver("bench", _read)

    with pytest.raises(DeliveryError, match="No such file") as error:
        asyncio.run(deliver())
    assert not error.value.refused


def test_stored_results_are_found_on_the_route_of_the_namespace(tmp_path: Path) -> None:
    """The request is a document, compressed; an answer that is none is a refusal."""
    (tmp_path / "token").write_text("token-0\n")
    request = ReuseRequest(
        stored_before="2026-06-01T03:00:00.000Z",
        queries=[ReuseQuery(spec_digest="0" * 16, node="node-a", images=["sha256:1"])],
    )
    known = ReusableResult(id="0123abcd", run="old", started_at="2026-05-01")
    answers: list[Any] = [{"results": [[known.model_dump(by_alias=True, exclude_none=True)]]}, []]
    seen: list[tuple[str, ReuseRequest]] = []

    async def take(received: web.Request) -> web.Response:
        body = gzip.decompress(await received.read())
        seen.append((received.path, ReuseRequest.read_json(body)))
        return web.json_response(answers.pop(0))

    async def find() -> list[Any]:
        application = web.Application()
        application.router.add_post("/{path:.*}", take)
        runner = web.AppRunner(application, auto_decompress=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession() as session:
            settings = ResultsServiceSettings(
                url=f"http://{host}:{port}", token_file=str(tmp_path / "token")
            )
            client = ResultsClient(session, settings)
            found: list[Any] = [await client.find_reusable("bench", request)]
            try:
                await client.find_reusable("bench", request)
            except DeliveryError as error:
                found.append(error)
        await runner.cleanup()
        return found

    answer, error = asyncio.run(find())
    assert answer.results == [[known]]
    assert error.refused
    assert seen == [(f"{EXPLORER}{reuse_path('bench')}", request)] * 2
