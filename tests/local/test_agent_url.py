"""Only a node agent is accepted as a node agent."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typing_extensions import override

from inferometer_api.results.agent_sample import AgentSample
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.agent import Agent, Metering, find_agent, plan_metering
from inferometer_cli.local.child_process import ChildProcess
from inferometer_cli.local.server import TargetServer
from support.agent_process import agent


def found(url: str | None, *, is_launched: bool = True) -> Agent | None:
    """Return the agent that a run requested by `--agent URL` has."""

    async def ask() -> Agent | None:
        async with AsyncExitStack() as stack:
            return await find_agent(url, is_launched=is_launched, stack=stack)

    return asyncio.run(ask())


async def metered(url: str = "", *command: str) -> Metering:
    """Return the metering of a child by the agent at a URL; without one by the child itself."""
    child = await ChildProcess.start("child", command)
    try:
        if not url:
            return await plan_metering(
                Agent("n", process=child), TargetServer(url="http://127.0.0.1:8000")
            )
        server = TargetServer(url="http://127.0.0.1:8000", process=child)
        return await plan_metering(Agent("n", url=url), server)
    finally:
        await child.stop(grace_seconds=0.0)


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
    (planned,) = asyncio.run(plan_metering(taken, TargetServer(url="http://127.0.0.1:8000"))).agents
    assert (planned.url, planned.node, planned.process_ids) == (process.url, "n7", [])


def test_an_agent_of_this_machine_is_queried_for_the_server(tmp_path: Path) -> None:
    """Machine and process are the server's own: it is planned with that process."""
    with agent(tmp_path, "--no-nvml") as process:
        (planned,) = asyncio.run(metered(process.url, "sleep", "60")).agents
    assert len(planned.process_ids) == 1


def test_an_agent_of_another_machine_is_refused(tmp_path: Path) -> None:
    """Of a machine that was started at another time no process is the server."""
    proc = tmp_path / "proc/sys/kernel/random"
    proc.mkdir(parents=True)
    (proc / "boot_id").write_text("6fdd4dba-2c4c-4c6c-9a8a-3f6a5c2a7f10\n")
    words = ("--no-nvml", "--node", "far", "--proc-root", str(tmp_path / "proc"))
    with (
        agent(tmp_path, *words) as process,
        pytest.raises(RefusedError, match=r"it watches another machine \(far\). Give an agent on"),
    ):
        asyncio.run(metered(process.url, "sleep", "60"))


def test_a_recorded_machine_is_believed(tmp_path: Path) -> None:
    """Recorded files that report no start of a machine may be of this one."""
    (tmp_path / "proc").mkdir()
    with agent(tmp_path, "--no-nvml", "--proc-root", str(tmp_path / "proc")) as process:
        assert asyncio.run(metered(process.url, "sleep", "60")).agents


def test_a_newer_agents_long_answer_is_read_completely() -> None:
    """Fields of a later release are passed over, in however many pieces an answer comes."""
    sample = AgentSample(agent_version="9", instance="i", node="n1", monotonic_ns=1, unix_ns=1)
    body = sample.model_dump_json(exclude_none=True).encode()
    newer = body[:-1] + b',"newField":"' + b"x" * 500_000 + b'"}'
    with answering(200, newer) as url:
        assert found(url) == Agent(node="n1", url=url)
    endless = body[:-1] + b',"newField":"' + b"x" * 2**20 + b'"}'
    with answering(200, endless) as url, pytest.raises(RefusedError, match="longer than 1048576"):
        found(url)


@pytest.mark.parametrize("output", ["warning: something", "{}", "[]", "7", '{"port": "x"}'])
def test_an_agent_with_unexpected_output_costs_only_the_energy(output: str) -> None:
    """A child that does not say where it listens is no agent, and no end of the run."""
    metering = asyncio.run(metered("", "echo", output))
    assert metering.agents == []
    assert "the node agent did not start: it printed" in metering.unmetered


def test_an_external_server_has_no_agent_by_itself() -> None:
    """What runs it is not known, and the reason says what to do."""
    assert found(None, is_launched=False) is None
    metering = asyncio.run(plan_metering(None, TargetServer(url="http://127.0.0.1:8000")))
    assert metering.agents == []
    assert "--agent URL" in metering.unmetered


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b"hello", "not that of a compatible node agent"),
        (200, b'{"version": 2}', "not that of a compatible node agent"),
        (403, b"", "reports no processes"),
        (404, b"", "status 404"),
        (302, b"", "not that of a compatible node agent"),
        (500, b"", "status 500"),
    ],
)
def test_what_is_no_agent_is_refused(status: int, body: bytes, why: str) -> None:
    """Another server's answer is reported; a redirect is not followed."""
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
    with pytest.raises(RefusedError, match="is not the URL of an agent"):
        found(url)
