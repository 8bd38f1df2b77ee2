"""Readiness of a server that was started: awaited, and judged if it is late or dead."""

import asyncio
import contextlib
import json
from http import HTTPStatus
from typing import Any

from inferometer_api.results.result import Outcome
from inferometer_api.runtimes.descriptor import LOOPBACK, Listen
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local.child_process import (
    ChildProcess,
    describe_exit,
    first_line,
    refusal_of,
    with_last_output,
)

_POLL_SECONDS = 0.1
_ANSWER_SECONDS = 5.0
"""How long a server may take to answer whether it is ready."""


async def wait_for_death(process: ChildProcess) -> Outcome:
    """Wait until the server exits; return what that means for the run."""
    code = await process.wait()
    if refusal := refusal_of(process, code):
        return Outcome(state="Refused", reason="ServerRefused", message=refusal)
    sentence = f"The server died during the run ({describe_exit(code)})."
    return Outcome(state="Failed", reason="ServerDied", message=with_last_output(sentence, process))


async def wait_for_deadline(process: ChildProcess, run: BenchmarkRun, ready_by: float) -> Outcome:
    """Return the outcome of a server that is not ready in time; wait forever if it is."""
    try:
        async with asyncio.timeout_at(ready_by):
            await wait_until_ready(process)
    except TimeoutError:
        return Outcome(
            state="Failed", reason="ServerNotReady", message=str(not_ready_error(run, process))
        )
    never: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    return await never


async def poll_until_ready(
    process: ChildProcess, url: str, run: BenchmarkRun, ready_by: float
) -> None:
    """Return once `url` answers 200. Raises FailedError if the server dies first or is late."""
    polling = asyncio.create_task(_poll(url))
    death = asyncio.create_task(process.wait())
    try:
        left_seconds = ready_by - asyncio.get_running_loop().time()
        done, _ = await asyncio.wait(
            (polling, death), timeout=left_seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        polling.cancel()
        death.cancel()
    if death in done:
        ended = describe_exit(death.result())
        raise FailedError(
            with_last_output(f"The server died before it was ready ({ended}).", process)
        )
    if polling not in done:
        raise not_ready_error(run, process)
    polling.result()


async def _poll(url: str) -> None:
    # Slow to import, and not needed by every runtime.
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with session.get(url, allow_redirects=False) as answer:
                    if answer.status == HTTPStatus.OK:
                        return
            await asyncio.sleep(_POLL_SECONDS)


async def announced_ports(process: ChildProcess, run: BenchmarkRun, ready_by: float) -> Listen:
    """Return the ports that a server announces. Raises RefusedError or FailedError if it cannot."""
    try:
        async with asyncio.timeout_at(ready_by):
            event: dict[str, Any] = json.loads(await first_line(process))
    except TimeoutError:
        raise not_ready_error(run, process) from None
    if event["event"] == "refused":
        raise RefusedError(event["message"])
    if event["event"] != "listening":
        raise FailedError(event["message"])
    http_port = event["httpPort"]
    return Listen(LOOPBACK.host, http_port, event["grpcPort"], http_port)


async def wait_until_ready(process: ChildProcess) -> bool:
    """Return True once the server reports that it is ready, False if it closes its output."""
    async for line in process.lines():
        if json.loads(line)["event"] == "ready":
            return True
    return False


def not_ready_error(run: BenchmarkRun, process: ChildProcess) -> FailedError:
    """Return the error of a server that was not ready in time."""
    seconds = run.spec.server.ready_deadline_seconds
    return FailedError(
        with_last_output(
            f"The server was not ready within {seconds} s (spec.server.readyDeadlineSeconds). "
            "Raise the deadline, or check what delays the server.",
            process,
        )
    )
