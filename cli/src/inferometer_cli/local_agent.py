"""Which node agent tells what the server of a local run uses?"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from inferometer_api.plan.launch import agent_command
from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import SAMPLE_PATH, AgentSample
from inferometer_cli.children import Child
from inferometer_cli.exits import RefusedError
from inferometer_cli.local_server import Server, start, with_last_lines

_BEGIN_SECONDS = 10.0
"""How long a child may take to listen, beside the server that starts too."""
_ANSWER_SECONDS = 5.0
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent of this run's own, or one that runs already; of the node with this name."""

    node: str
    url: str = ""
    process: Child | None = None


@dataclass(frozen=True, slots=True)
class Metering:
    """What the plan says of agents."""

    agents: list[PlannedAgent]
    unmetered: str = ""
    """Why there is no agent: a sentence without its period."""


async def agent_of(url: str | None, *, is_launched: bool, stack: AsyncExitStack) -> Agent | None:
    """Return the agent at `url`, else one that begins now as a child and ends with the stack.

    None where the server is not started here: what runs it is not known. Raises RefusedError where
    no agent answers at `url`.
    """
    if url is not None:
        return Agent(node=(await _sample_at(url)).node, url=url.rstrip("/"))
    if not is_launched:
        return None
    node = socket.gethostname()
    command = agent_command(sys.executable, host="127.0.0.1", node=node)
    # It has nothing to tidy up, so that no run waits for its end.
    return Agent(node, process=await start("node agent", command, stack, grace_seconds=0.0))


async def metering(agent: Agent | None, server: Server) -> Metering:
    """Return what the plan says of the agent, once it listens; a run goes on without one.

    Raises RefusedError where the agent that was named watches another machine than the server's.
    """
    if agent is None:
        return Metering([], "the server is External: name its node's agent by --agent URL")
    url = agent.url
    process_ids = [] if server.process is None else [server.process.process_id]
    if agent.process is None:
        for process_id in process_ids:
            why = why_not_of(await _sample_at(url, process_id), process_id)
            if why:
                raise RefusedError(
                    f"--agent {url} cannot tell what the server uses: {why}. Name an agent of this "
                    "machine, or leave --agent out: the run then starts its own."
                )
    else:
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                url = f"http://127.0.0.1:{await _port(agent.process)}"
        except (TimeoutError, OSError) as error:
            why = str(error) or f"it did not listen within {_BEGIN_SECONDS:g} s"
            reason = with_last_lines(f"the node agent could not be started: {why}", agent.process)
            return Metering([], reason.removesuffix("."))
    return Metering([PlannedAgent(url=url, node=agent.node, process_ids=process_ids)])


def why_not_of(sample: AgentSample, process_id: int, proc_root: Path = Path("/proc")) -> str:
    """Return why a sample cannot be of a process of this machine; empty where it can.

    A recorded machine, and an agent of before there were these fields, are believed.
    """
    if not sample.boot_id:
        return ""
    if sample.boot_id != _said(proc_root / "sys/kernel/random/boot_id").strip():
        return f"it watches another machine ({sample.node})"
    found = next((each for each in sample.workloads if each.process_id == process_id), None)
    # Behind the name, which is in brackets and may hold anything, the 20th is when it began.
    begun = _said(proc_root / f"{process_id}/stat").rpartition(")")[2].split()[19:20]
    if found is None or (found.start_ticks is not None and [str(found.start_ticks)] != begun):
        return f"it knows another process {process_id}, or none: its processes have other numbers"
    return ""


def _said(path: Path) -> str:
    """Return what a file says; empty where it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


async def _port(child: Child) -> int:
    async for line in child.lines():
        try:
            return int(json.loads(line)["port"])
        except (ValueError, LookupError, TypeError):
            raise ConnectionError(f"it said {line[:80]!r} instead of where it listens") from None
    raise ConnectionError("it ended at its start")


async def _sample_at(url: str, process_id: int | None = None) -> AgentSample:
    """Return a sample of the agent at a URL, of a process where one is named. Raises RefusedError.

    Fields that this version does not know are passed over: agents have releases of their own.
    """
    if not _is_base(url):
        raise RefusedError(f"--agent {url} is no agent's URL: it is http://HOST:PORT.")
    asked = "" if process_id is None else f"?process={process_id}"
    # Heavy to import, and seldom needed.
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url.rstrip('/')}{SAMPLE_PATH}{asked}", allow_redirects=False) as answer,
        ):
            answer.raise_for_status()
            body = await _whole(answer.content.iter_any())
        return AgentSample.read_json(body)
    except ValidationError:
        raise _refused(url, "what answers there is no agent of this version") from None
    except aiohttp.ClientResponseError as error:
        raise _refused(url, f"what answers there said {error.status}") from None
    except TimeoutError:
        raise _refused(url, f"nothing answered within {_ANSWER_SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _refused(url, str(error)) from None


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Return all pieces of an answer together. Raises ValueError where it is too long."""
    body = b""
    async for piece in pieces:
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError(f"what answers there said more than {_MOST_BYTES} bytes")
    return body


def _is_base(url: str) -> bool:
    """Return whether a URL is http, a host and a port, and nothing more."""
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname and parts.port)
    except ValueError:
        return False
    return has_place and "@" not in url and url.removesuffix("/") == f"http://{parts.netloc}"


def _refused(url: str, why: str) -> RefusedError:
    return RefusedError(
        f"No node agent answered at --agent {url}: {why}. Start one with inferometer-agent, or "
        "leave --agent out: the run then starts its own."
    )
