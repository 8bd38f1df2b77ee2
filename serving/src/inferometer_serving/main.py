"""The server process, from its options to its exit code.

It reports its progress on standard output, in lines of JSON:
`{"event": "listening", "httpPort": 8000, "grpcPort": 8001}`, then
`{"event": "ready", "loadSeconds": 0.4, "warmUpSeconds": 0.1}`, or
`{"event": "refused" | "failed", "message": "..."}` before it ends, unless that is a terminal. Logs
and the error message go to standard error.
"""

import asyncio
import os
import signal
import sys
import traceback

import orjson
import structlog
import uvloop

from inferometer_models.errors import ModelRefusedError
from inferometer_serving import BEGAN_MICROSECONDS
from inferometer_serving.errors import StartRefusedError
from inferometer_serving.grpc.server import GrpcServer
from inferometer_serving.http.server import HttpServer
from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ServeOptions
from inferometer_serving.request_router import Loaded
from inferometer_serving.server_state import ServerState
from inferometer_serving.start_up import StartUp

_EXIT_DONE = 0
_EXIT_FAILED = 1
"""An internal error."""
_EXIT_REFUSED = 2
"""Cannot run because of the model, an operator, the device, a port or the command line."""
_CLOSE_SECONDS = 1.0
_STOP_SECONDS = 3.0


def serve(options: ServeOptions) -> int:
    """Serve a model until SIGTERM or SIGINT, and return the exit code.

    0: stopped by a signal. 2: refused, because of the model, an operator, the device or a port.
    1: internal error. The last line on standard error gives the reason.
    """
    structlog.configure(
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.add_log_level,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_Process(options).run())
    except (ModelRefusedError, StartRefusedError) as error:
        return _end("refused", str(error), _EXIT_REFUSED)
    except Exception as error:  # noqa: BLE001 - the process's last resort
        traceback.print_exc()
        return _end("failed", f"The server failed: {error!r}.", _EXIT_FAILED)
    return _EXIT_DONE


class _Process:
    """One run of a server."""

    def __init__(self, options: ServeOptions) -> None:
        if options.model_name in options.other_models:
            raise StartRefusedError(
                f"Two models have the name {options.model_name!r}: give --other-model another one."
            )
        self._options = options
        self._interrupt = Interrupt()
        self._start_up = StartUp(BEGAN_MICROSECONDS)

    async def run(self) -> None:
        """Serve until a signal. Raises StartRefusedError if that is not possible."""
        self._start_up.end("imported")
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        hurry = asyncio.Event()

        def on_signal() -> None:
            (hurry if stop.is_set() else stop).set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        state = ServerState(self._options, loop, self._interrupt)
        try:
            await self._serve(state, stop, hurry)
        finally:
            self._interrupt.set()
            if not state.stop(_STOP_SECONDS):
                _leave_behind()

    async def _serve(self, state: ServerState, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        options = self._options
        http = HttpServer(state, asyncio.get_running_loop())
        grpc = GrpcServer(state)
        http_port = await http.listen(options.host, options.http_port)
        grpc_port = await grpc.listen(options.host, options.grpc_port)
        _print_event({"event": "listening", "httpPort": http_port, "grpcPort": grpc_port})
        log = structlog.get_logger()
        log.info("listening", host=options.host, http_port=http_port, grpc_port=grpc_port)
        self._start_up.end("listening")
        try:
            if await self._make_ready(state, stop):
                await stop.wait()
            log.info("draining", seconds=options.drain_seconds)
            state.drain()
            await self._drain(http, grpc, hurry)
        finally:
            self._interrupt.set()
            state.drain()
            state.give_up()
            await grpc.drain(_CLOSE_SECONDS)
            await http.close(_CLOSE_SECONDS)
        log.info("ended")

    async def _make_ready(self, state: ServerState, stop: asyncio.Event) -> bool:
        """Load and warm up outside the event loop; return False if that was stopped."""
        loading = asyncio.ensure_future(state.load(self._start_up, self._announce))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            loading.cancel()
            return False
        stopping.cancel()
        loading.result()  # raises why the model is refused
        return True

    def _announce(self, loaded: Loaded) -> None:
        load_seconds = round(loaded.model.load_seconds, 6)
        warm_up_seconds = round(loaded.warm.seconds, 6)
        _print_event(
            {"event": "ready", "loadSeconds": load_seconds, "warmUpSeconds": warm_up_seconds}
        )
        structlog.get_logger().info(
            "ready",
            model=self._options.model_name,
            sha256=loaded.model.sha256,
            nodes=loaded.model.session.placement.nodes_by_provider,
            load_seconds=load_seconds,
            warm_up_seconds=warm_up_seconds,
        )

    async def _drain(self, http: HttpServer, grpc: GrpcServer, hurry: asyncio.Event) -> None:
        """Let requests in flight end, for as long as they may, or until a second signal."""
        # longer than it may take: requests that end here get a reason, those that gRPC ends do not
        grace_seconds = self._options.drain_seconds + _CLOSE_SECONDS
        drained = asyncio.gather(http.drain(), grpc.drain(grace_seconds))
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait(
            (drained, hurried),
            timeout=self._options.drain_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        hurried.cancel()
        if not drained.done():
            structlog.get_logger().warning("requests in flight were given up")
            drained.cancel()


def _print_event(document: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(document).decode() + "\n")
    sys.stdout.flush()


def _end(event: str, sentence: str, code: int) -> int:
    if not sys.stdout.isatty():  # a person would read it twice
        _print_event({"event": event, "message": sentence})
    sys.stderr.write(f"{event}: {sentence}\n")
    sys.stderr.flush()
    return code


def _leave_behind() -> None:
    """End the process although a thread hangs in ONNX Runtime: ending it gently could crash."""
    structlog.get_logger().warning("an inference did not end, and was left behind")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_EXIT_DONE if sys.exception() is None else _EXIT_FAILED)
