"""The node agent of a local run: started here, or found at a URL."""

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
from inferometer_cli.exits import RefusedError
from inferometer_cli.local.child_process import ChildProcess, start_child, with_last_output
from inferometer_cli.local.server import TargetServer

_START_SECONDS = 10.0
"""How long the agent may take to listen, while the server starts too."""
_FORBIDDEN = 403
"""The answer of an agent on a cluster's node to a query for a process."""
_ANSWER_SECONDS = 5.0
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Agent:
    """The agent of a node: a child of this run, or one that is already running."""

    node: str
    url: str = ""
    process: ChildProcess | None = None


@dataclass(frozen=True, slots=True)
class Metering:
    """The agents in the plan of a run."""

    agents: list[PlannedAgent]
    unmetered: str = ""
    """Why there is no agent: a sentence without a period."""


async def find_agent(url: str | None, *, is_launched: bool, stack: AsyncExitStack) -> Agent | None:
    """Return the agent at `url`, or start one as a child that ends with the stack.

    Return None if the run does not start the server, because its machine is unknown. Raises
    RefusedError if no agent answers at `url`.
    """
    if url is not None:
        return Agent(node=(await _sample_at(url)).node, url=url.rstrip("/"))
    if not is_launched:
        return None
    node = socket.gethostname()
    command = agent_command(sys.executable, host="127.0.0.1", node=node)
    # It has nothing to clean up, so do not wait for its end.
    return Agent(node, process=await start_child("node agent", command, stack, grace_seconds=0.0))


async def plan_metering(agent: Agent | None, server: TargetServer) -> Metering:
    """Return the plan's entry for the agent once it listens, or why there is none.

    Raises RefusedError if the given agent watches another machine than the server's.
    """
    if agent is None:
        return Metering([], "the server is External; give the agent of its node with --agent URL")
    url = agent.url
    process_ids = [] if server.process is None else [server.process.process_id]
    if agent.process is None:
        for process_id in process_ids:
            why = mismatch(await _sample_at(url, process_id), process_id)
            if why:
                raise RefusedError(
                    f"--agent {url} cannot observe the server: {why}. Give an agent on this "
                    "machine, or omit --agent; the run then starts its own."
                )
    else:
        try:
            async with asyncio.timeout(_START_SECONDS):
                url = f"http://127.0.0.1:{await _port(agent.process)}"
        except (TimeoutError, OSError) as error:
            why = str(error) or f"it did not listen within {_START_SECONDS:g} s"
            reason = with_last_output(f"the node agent did not start: {why}", agent.process)
            return Metering([], reason.removesuffix("."))
    return Metering([PlannedAgent(url=url, node=agent.node, process_ids=process_ids)])


def mismatch(sample: AgentSample, process_id: int, proc_root: Path = Path("/proc")) -> str:
    """Return why a sample cannot describe a process of this machine; empty if it can.

    Samples without a boot id (recorded machines, old agents) are trusted.
    """
    if not sample.boot_id:
        return ""
    if sample.boot_id != _read_text(proc_root / "sys/kernel/random/boot_id").strip():
        return f"it watches another machine ({sample.node})"
    found = next((each for each in sample.workloads if each.process_id == process_id), None)
    # After the name, which is in brackets and may contain anything, field 20 is the start time.
    begun = _read_text(proc_root / f"{process_id}/stat").rpartition(")")[2].split()[19:20]
    if found is None or (found.start_ticks is not None and [str(found.start_ticks)] != begun):
        return f"it has another process {process_id}, or none, so its process ids differ"
    return ""


def _read_text(path: Path) -> str:
    """Return the content of a file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


async def _port(child: ChildProcess) -> int:
    async for line in child.lines():
        try:
            return int(json.loads(line)["port"])
        except (ValueError, LookupError, TypeError):
            raise ConnectionError(f"it printed {line[:80]!r} instead of its port") from None
    raise ConnectionError("it exited at once")


async def _sample_at(url: str, process_id: int | None = None) -> AgentSample:
    """Return a sample of the agent at a URL, for a process if one is given. Raises RefusedError.

    Unknown fields are ignored: agents have their own releases.
    """
    if not _is_base(url):
        raise RefusedError(f"--agent {url} is not the URL of an agent. Give http://HOST:PORT.")
    query = "" if process_id is None else f"?process={process_id}"
    # Slow to import, and rarely needed.
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url.rstrip('/')}{SAMPLE_PATH}{query}", allow_redirects=False) as answer,
        ):
            answer.raise_for_status()
            body = await _read_bounded(answer.content.iter_any())
        return AgentSample.read_json(body)
    except ValidationError:
        raise _no_agent_error(url, "the answer is not that of a compatible node agent") from None
    except aiohttp.ClientResponseError as error:
        found = f"the answer has status {error.status}"
        if error.status == _FORBIDDEN:
            found = "it reports no processes, because it does not listen on loopback alone"
        raise _no_agent_error(url, found) from None
    except TimeoutError:
        raise _no_agent_error(url, f"no answer within {_ANSWER_SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _no_agent_error(url, str(error)) from None


async def _read_bounded(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the whole body of an answer. Raises ValueError if it is too long."""
    body = b""
    async for piece in pieces:
        body += piece
        if len(body) > _MOST_BYTES:
            raise ValueError(f"the answer is longer than {_MOST_BYTES} bytes")
    return body


def _is_base(url: str) -> bool:
    """Return whether a URL has the form http://HOST:PORT."""
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname and parts.port)
    except ValueError:
        return False
    return has_place and "@" not in url and url.removesuffix("/") == f"http://{parts.netloc}"


def _no_agent_error(url: str, why: str) -> RefusedError:
    return RefusedError(
        f"No node agent answered at --agent {url}: {why}. Start one with inferometer-agent, or "
        "omit --agent; the run then starts its own."
    )
