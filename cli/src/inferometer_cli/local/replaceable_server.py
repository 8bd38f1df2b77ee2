"""The server of a local run: watched, and replaced by a new process before each further repeat."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from inferometer_api.plan.load_plan import LoadPlan, PlannedServer, ServerTargets
from inferometer_api.results.result import Outcome
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import FailedError
from inferometer_cli.local.cold_start import ColdStarter
from inferometer_cli.local.server import (
    LaunchedModel,
    TargetServer,
    check_listener,
    fetch_model,
    start_server,
)
from inferometer_cli.local.server_readiness import wait_for_deadline, wait_for_death
from inferometer_cli.progress import ProgressCallback

_ACCEPTED = 202
_ANSWER_SECONDS = 30.0
"""How long the load generator may take to answer; it does nothing else meanwhile."""


class ReplaceableServer:
    """The server to load: External, or a child process at a time."""

    def __init__(self, run: BenchmarkRun, current: TargetServer) -> None:
        self.current = current
        """The server now."""
        self._run = run
        self._start_next: Callable[[AsyncExitStack], Awaitable[TargetServer]] | None = None
        """Starts a process that ends with the stack; None for an External server."""
        self._children = AsyncExitStack()
        """Ends the process now."""
        self._stopping: asyncio.Future[None] | None = None
        self._requested = 1
        """The repeat that the current server is for, or a replacement was requested for."""
        self._is_requested = asyncio.Event()

    @classmethod
    async def start(
        cls,
        run: BenchmarkRun,
        base: Path,
        file: Path | None,
        stack: AsyncExitStack,
        watch: ProgressCallback,
        *,
        allow_python_steps: bool = False,
    ) -> "ReplaceableServer":
        """Fetch the model and start its server, or take the External one.

        `file` is the .npz file of the inputs. All child processes end with the stack. Raises
        RefusedError or FailedError if the server cannot be started.
        """
        external = run.spec.server.external
        if external is not None:
            await check_listener(run)
            return cls(run, TargetServer(url=external.url or ""))
        model = await fetch_model(run, base, file, stack, watch)
        watch("starting the server")
        children = await stack.enter_async_context(AsyncExitStack())

        async def fetch_again(of_process: AsyncExitStack) -> LaunchedModel:
            return await fetch_model(run, base, file, of_process, watch)

        async def start_again(of_process: AsyncExitStack) -> TargetServer:
            return await start_server(run, model, of_process, allow_python_steps=allow_python_steps)

        starts_cold = run.spec.starts_cold
        start_next = ColdStarter(run, model, fetch_again).start if starts_cold else start_again
        server = cls(run, await start_next(children))
        server._start_next = start_next
        server._children = children.pop_all()
        stack.push_async_callback(server._close)
        return server

    def request_replacement(self, repeat: int) -> None:
        """Replace the server for this repeat; requests for one repeat count once."""
        if repeat > self._requested:
            self._requested = repeat
            self._is_requested.set()

    async def wait_for_fault(
        self, on_replaced: Callable[[int, TargetServer], Awaitable[None]]
    ) -> Outcome:
        """Replace the server when requested, until one dies or is not ready in time: return that.

        `on_replaced` receives the repeat and its server. Raises RefusedError or FailedError if a
        server cannot be replaced.
        """
        while True:
            fault = await self._fault_or_request()
            if fault is not None:
                return fault
            await self._stop()
            if self._start_next is None:
                raise FailedError("An External server cannot be restarted between repeats.")
            self.current = await self._start_next(self._children)
            await on_replaced(self._requested, self.current)

    async def _fault_or_request(self) -> Outcome | None:
        """Return the fault of the current server; None if its replacement is requested first."""
        server, process = self.current, self.current.process
        requested = asyncio.create_task(self._is_requested.wait())
        faults = []
        if process is not None:
            faults.append(asyncio.create_task(wait_for_death(process)))
        if process is not None and server.ready_by is not None:
            deadline = wait_for_deadline(process, self._run, server.ready_by)
            faults.append(asyncio.create_task(deadline))
        try:
            await asyncio.wait([requested, *faults], return_when=asyncio.FIRST_COMPLETED)
            self._is_requested.clear()
            return next((fault.result() for fault in faults if fault.done()), None)
        finally:
            for task in (requested, *faults):
                task.cancel()

    async def _stop(self) -> None:
        """End the process now, also if this is cancelled."""
        children, self._children = self._children, AsyncExitStack()
        self._stopping = asyncio.ensure_future(children.aclose())
        await asyncio.shield(self._stopping)

    async def _close(self) -> None:
        if self._stopping is not None:
            await self._stopping
        await self._children.aclose()


async def hand_over(plan: LoadPlan, port: int, repeat: int, server: TargetServer) -> None:
    """Give the server of a repeat to the load generator of a plan, at a port of this machine.

    Raises FailedError if it does not take the server.
    """
    # Slow to import, and only needed between repeats.
    import aiohttp

    process_ids = [] if server.process is None else [server.process.process_id]
    targets = ServerTargets(
        repeat=repeat,
        servers=[PlannedServer(url=server.url, start=server.start)],
        agents=[each.model_copy(update={"process_ids": process_ids}) for each in plan.agents],
        energy_unavailable_reason=plan.energy_unavailable_reason,
        server_process_ids=process_ids,
    )
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                f"http://127.0.0.1:{port}/targets",
                data=targets.model_dump_json().encode(),
                headers={"Authorization": f"Bearer {plan.stop_token}"},
                allow_redirects=False,
            ) as answer,
        ):
            refusal = "" if answer.status == _ACCEPTED else (await answer.text()).strip()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        refusal = str(error) or f"it did not answer within {_ANSWER_SECONDS:g} s."
    if refusal:
        raise FailedError(
            f"The load generator did not take the restarted server of repeat {repeat}: {refusal}"
        )
