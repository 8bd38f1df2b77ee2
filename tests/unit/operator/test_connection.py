"""The operator counts the failed requests of other libraries."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from inferometer_operator.cluster.connection import ApiConnection
from inferometer_operator.cluster.lease import LeaseLostError
from support.waiting import within_deadline


async def _counted(*, breaks: bool) -> list[str]:
    """Return what was counted of a request that the server cuts, or that is given up here."""
    counted: list[str] = []
    came = asyncio.Event()

    async def cut(request: web.Request) -> web.Response:
        came.set()
        if breaks and request.transport is not None:
            request.transport.close()
        await asyncio.Event().wait()
        return web.Response()

    application = web.Application()
    application.router.add_get("/", cut)
    async with (
        TestServer(application, host="127.0.0.1") as server,
        ApiConnection(Configuration(), counted.append) as connection,
        connection.session(aiohttp.TraceConfig()) as session,
    ):
        asking = asyncio.create_task(_get(session, str(server.make_url("/"))))
        async with within_deadline("the request"):
            await came.wait()
        if not breaks:
            asking.cancel()
        async with within_deadline("the end of the request"):
            with contextlib.suppress(asyncio.CancelledError, aiohttp.ClientError):
                await asking
    return counted


async def _get(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url):
        pass


def test_a_request_without_an_answer_counts() -> None:
    """The API server was not reached."""
    assert asyncio.run(_counted(breaks=True)) == ["unreachable"]


def test_a_request_that_an_operator_gives_up_as_it_ends_does_not_count() -> None:
    """The API server might have answered."""
    assert asyncio.run(_counted(breaks=False)) == []


async def _sent(method: str, *, answers: bool) -> list[str]:
    """Return the requests of an operator that was replaced."""
    sent: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.method)
        return web.json_response({})

    def check_write() -> None:
        raise LeaseLostError

    application = web.Application()
    application.router.add_route("*", "/a", answer)
    settled = Configuration()
    async with TestServer(application, host="127.0.0.1") as server:
        settled.host = str(server.make_url("")).rstrip("/")
        async with ApiConnection(settled, check_write=check_write) as connection:
            with contextlib.nullcontext() if answers else pytest.raises(LeaseLostError):
                await connection.request(method, "/a", body={})
    return sent


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_an_operator_that_was_replaced_sends_no_write(method: str) -> None:
    """Each request that is no GET is checked just before it is sent."""
    assert asyncio.run(_sent(method, answers=False)) == []


def test_an_operator_that_was_replaced_may_read() -> None:
    """A read changes nothing."""
    assert asyncio.run(_sent("GET", answers=True)) == ["GET"]
