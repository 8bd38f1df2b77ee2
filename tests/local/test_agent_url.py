"""Is only what is a node agent taken for one?"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typing_extensions import override

from inferometer_cli.exits import RefusedError
from inferometer_cli.local_agent import Agent, agent_of, metering
from inferometer_cli.local_server import Server
from support.agent_process import agent


def found(url: str | None, *, is_launched: bool = True) -> Agent | None:
    """Return the agent that a run asked for by `--agent URL` has."""

    async def ask() -> Agent | None:
        async with AsyncExitStack() as stack:
            return await agent_of(url, is_launched=is_launched, stack=stack)

    return asyncio.run(ask())


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Serve the same answer to every question."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_agent_that_runs_is_taken_by_its_node(tmp_path: Path) -> None:
    """The plan has its URL, its node's name, and no process of an External server."""
    with agent(tmp_path, "--node", "n7", "--no-nvml") as process:
        taken = found(f"{process.url}/")
    assert taken == Agent(node="n7", url=process.url)
    (planned,) = asyncio.run(metering(taken, Server(url="http://127.0.0.1:8000"))).agents
    assert (planned.url, planned.node, planned.process_ids) == (process.url, "n7", [])


def test_an_external_server_has_no_agent_by_itself() -> None:
    """What runs it is not known, and the reason says what to do."""
    assert found(None, is_launched=False) is None
    told = asyncio.run(metering(None, Server(url="http://127.0.0.1:8000")))
    assert told.agents == []
    assert "--agent URL" in told.unmetered


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b"hello", "no agent of this version"),
        (200, b'{"version": 2}', "no agent of this version"),
        (404, b"", "said 404"),
        (302, b"", "no agent of this version"),
        (500, b"", "said 500"),
    ],
)
def test_what_is_no_agent_is_refused(status: int, body: bytes, why: str) -> None:
    """Another server's answer is told; a redirect is not followed."""
    with answering(status, body) as url, pytest.raises(RefusedError, match=why):
        found(url)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:9465",
        "https://127.0.0.1:9465",
        "http://",
        "http://a/b",
        "http://a:x",
        "http://a:1?b",
        "http://a",
        "http://a:70000",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    """An agent's URL is http, a host and a port."""
    with pytest.raises(RefusedError, match="no agent's URL"):
        found(url)
