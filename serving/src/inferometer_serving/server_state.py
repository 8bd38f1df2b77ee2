"""The state of the server, and the loading and unloading of its model."""

import asyncio
import gc
from collections.abc import Callable
from enum import Enum
from importlib.metadata import version
from time import monotonic, time_ns
from typing import Any

import structlog

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.errors import RefusalReason, RequestRefusedError, invalid
from inferometer_serving.freed_memory import keep_freed_memory
from inferometer_serving.inference_stats import InferenceStats
from inferometer_serving.job_thread import JobThread
from inferometer_serving.layers.in_pod_request import LayersRequest, timed_layers
from inferometer_serving.metadata import MODEL_VERSION
from inferometer_serving.metrics import ServerMetrics
from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ModelControlMode, ServeOptions
from inferometer_serving.other_models import OtherModels, load_others
from inferometer_serving.profile.profiler import ProfileRequest, profile
from inferometer_serving.request_router import Counters, Loaded, RequestRouter, load_and_warm
from inferometer_serving.start_up import StartUp
from inferometer_serving.statistics import Statistics
from inferometer_serving.tracing import SpanLog


class Phase(Enum):
    """Where a server stands between its start and its end."""

    LOADING = "loading its model"
    READY = "ready"
    UNLOADED = "without its model, which was unloaded: load it again"
    DRAINING = "draining: it ends once the requests in flight are answered"


class ServerState:
    """The state that both protocols share. Only the event loop's thread uses it."""

    def __init__(
        self, options: ServeOptions, loop: asyncio.AbstractEventLoop, interrupt: Interrupt
    ) -> None:
        self.options = options
        self.version = version("inferometer")
        self.metrics = ServerMetrics()
        self.statistics = Statistics()
        self.inference_stats = InferenceStats(self.metrics, self.statistics)
        """Flush it before reading either of them."""
        self.spans = SpanLog(self.version)
        self.phase = Phase.LOADING
        self.reading = JobThread(loop, "reading")
        """Reads requests that would hold up the event loop."""
        self._loop = loop
        self._interrupt = interrupt
        self._loading = JobThread(loop, "loading")
        self._changes = asyncio.Lock()
        self._router: RequestRouter | None = None
        self._others = OtherModels()
        self._leaving: RequestRouter | None = None
        """The model before, while its last requests are answered."""

    async def load(
        self, start_up: StartUp, announce: Callable[[Loaded], None] = lambda _: None
    ) -> None:
        """Load the model and serve it. Raises ModelRefusedError, and then changes nothing.

        `start_up` gets the phases; the last one ends once `announce` has reported that it is ready.
        """
        options, interrupt = self.options, self._interrupt
        async with self._changes:
            loaded = await self._loading.call(lambda: load_and_warm(options, interrupt, start_up))
            if not self._others and options.other_models:
                others = await self._loading.call(lambda: load_others(options, interrupt))
                self._others.open(self._loop, options, others, self.metrics, self.version)
            self._become_ready(loaded)
            await self._let_go()
            gc.collect()
            gc.freeze()  # what is loaded stays: later collections need not look at it
            gc.enable()
            keep_freed_memory()
            announce(loaded)
            start_up.end("ready")
            if options.start_up_report and self._router is not None:
                self._router.report_start_up(start_up.to_json())

    async def load_again(self, name: str, parameters: dict[str, Any]) -> None:
        """Load the model anew from its file; the one before serves until then.

        Raises RequestRefusedError if that cannot be.
        """
        self._check_control(name)
        if parameters:
            raise invalid(
                f"The model was to be loaded with the parameters {', '.join(sorted(parameters))}: "
                "this server's options are those that it was started with; send none."
            )
        if self.phase in (Phase.LOADING, Phase.DRAINING):
            raise self.unavailable()
        try:
            await self.load(StartUp(time_ns() // 1000))
        except ModelRefusedError as error:
            raise invalid(str(error)) from error
        structlog.get_logger().info("loaded again", model=name)

    async def unload(self, name: str) -> None:
        """Serve the model no more, and return once its requests in flight are answered.

        Raises RequestRefusedError for another model, while the server loads or drains, and if
        clients may not.
        """
        self._check_control(name)
        if self.phase in (Phase.LOADING, Phase.DRAINING):
            raise self.unavailable()
        async with self._changes:
            self._leaving, self._router = self._router, None
            if self.phase is Phase.READY:
                self.phase = Phase.UNLOADED
            self.metrics.is_ready = False
            await self._let_go()
        structlog.get_logger().info("unloaded", model=name)

    async def profile(self, request: ProfileRequest) -> dict[str, Any]:
        """Profile the model on sessions of their own, one profile at a time.

        Raises RequestRefusedError unless the server was started for it and is ready.
        """
        options, interrupt = self.options, self._interrupt
        return await self._measure(lambda: profile(options, request, interrupt))

    async def time_layers(self, request: LayersRequest) -> dict[str, Any]:
        """Time layers in a process of their own; raises as `profile` does."""
        options, interrupt = self.options, self._interrupt
        return await self._measure(lambda: timed_layers(options, request, interrupt))

    async def _measure(self, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if not self.options.profiling:
            raise RequestRefusedError(
                RefusalReason.FORBIDDEN,
                "This server does not profile its model, which may be measured now: start it with "
                "--profiling on for that.",
            )
        if not self.is_ready:
            raise self.unavailable()
        async with self._changes:
            try:
                return await self._loading.call(measure)
            except ModelRefusedError as error:
                raise invalid(str(error)) from error

    def drain(self) -> None:
        """Take no new inferences from now on."""
        self.phase = Phase.DRAINING
        self.metrics.is_ready = False
        if self._router is not None:
            self._router.pool.stop_delaying()
        self._others.drain()

    def give_up(self) -> None:
        """Answer all inferences in flight by an error."""
        error = RequestRefusedError(
            RefusalReason.UNAVAILABLE,
            "The server ended before the model had computed this request.",
        )
        for served in (self._router, self._leaving):
            if served is not None:
                served.give_up(error)
        self._others.give_up(error)

    def stop(self, timeout_seconds: float) -> bool:
        """End all threads; say whether they ended in time."""
        until = monotonic() + timeout_seconds
        ended = [each.stop(until - monotonic()) for each in (self.reading, self._loading)]
        models = [each for each in (self._router, self._leaving) if each is not None]
        ended += [each.pool.stop(until - monotonic()) for each in models]
        ended.append(self._others.stop(lambda: until - monotonic()))
        return all(ended)

    def keeps_connections(self) -> bool:
        """Return whether a client may send more on a connection."""
        return self.phase is not Phase.DRAINING

    @property
    def is_ready(self) -> bool:
        """Return whether inferences are served."""
        return self.phase is Phase.READY

    @property
    def pending(self) -> int:
        """Return how many inference requests are read, wait for the model or are computed."""
        computed = 0 if self._router is None else len(self._router.pool.requests)
        leaving = 0 if self._leaving is None else len(self._leaving.pool.requests)
        return self.reading.pending + computed + leaving + self._others.pending

    def router(self, name: str) -> RequestRouter:
        """Return the router of a model's inferences. Raises RequestRefusedError if not ready."""
        if self.phase is not Phase.READY:
            raise self.unavailable()
        return self.loaded_router(name)

    def loaded_router(self, name: str) -> RequestRouter:
        """Return the router of a loaded model. Raises RequestRefusedError if it is not loaded."""
        other = self._others.get(name)
        served = self._router if other is None else other.router
        if served is None:
            raise self.unavailable()
        return served

    def unavailable(self) -> RequestRefusedError:
        """Return the error for a request that comes too early or too late."""
        return RequestRefusedError(RefusalReason.UNAVAILABLE, f"The server is {self.phase.value}.")

    def check_model(self, name: str, model_version: str) -> None:
        """Raise RequestRefusedError unless this model is one that is served here."""
        if name != self.options.model_name and name not in self.options.other_models:
            raise self._unknown(name)
        if model_version not in ("", MODEL_VERSION):
            raise RequestRefusedError(
                RefusalReason.NOT_FOUND,
                f"Version '{model_version}' of the model '{name}' was requested, but this server "
                f"has only version {MODEL_VERSION}: name that one, or none.",
            )

    def check_first_model(self, name: str, model_version: str) -> None:
        """Raise RequestRefusedError unless this is the model that can be measured and reloaded."""
        self._check_name(name)
        self.check_model(name, model_version)

    def model_statistics(self, name: str = "") -> dict[str, Any]:
        """Return the protocol's statistics of a model, or of all."""
        self.settle()
        own = self.statistics.to_document(self.options.model_name, MODEL_VERSION)
        documents = [own, *(each.document() for each in self._others.values())]
        return {"model_stats": [each for each in documents if name in ("", each["name"])]}

    def settle(self) -> None:
        """Bring metrics and statistics of all models up to date."""
        self.inference_stats.settle()
        for each in self._others.values():
            each.counters.inference_stats.settle()

    def repository_index(self, *, only_ready: bool) -> list[dict[str, str]]:
        """Return the protocol's list of models and their states."""
        word = {Phase.LOADING: "LOADING", Phase.DRAINING: "UNLOADING"}.get(self.phase)
        state, reason = word or "UNAVAILABLE", self.phase.value
        if self.is_ready:
            state, reason = "READY", ""
        elif only_ready:
            return []
        return [
            {"name": name, "version": MODEL_VERSION, "state": state, "reason": reason}
            for name in self.options.model_names
        ]

    def _become_ready(self, loaded: Loaded) -> None:
        counters = Counters(self.metrics, self.statistics, self.inference_stats)
        self._leaving = self._router
        self._router = RequestRouter(self._loop, self.options, loaded, counters, self.version)
        if self.phase is not Phase.DRAINING:
            self.phase = Phase.READY
            self.metrics.is_ready = True

    async def _let_go(self) -> None:
        """Wait for the last requests of a model that is served no more, and free it."""
        leaving = self._leaving
        if leaving is None:
            return
        # Requests that are being read were begun on it: those read before this job are put by then.
        await self.reading.call(lambda: None)
        ended = asyncio.Event()
        leaving.pool.retire(ended.set)
        await ended.wait()
        leaving.model.unload()
        self._leaving = None
        del leaving
        gc.unfreeze()
        gc.collect()

    def _check_control(self, name: str) -> None:
        self._check_name(name)
        if self.options.model_control_mode is not ModelControlMode.EXPLICIT:
            raise RequestRefusedError(
                RefusalReason.FORBIDDEN,
                "This server does not let clients load or unload its model, which may be measured "
                "now: start it with --model-control-mode explicit for that.",
            )

    def _check_name(self, name: str) -> None:
        if name in self.options.other_models:
            raise RequestRefusedError(
                RefusalReason.UNSUPPORTED,
                f"The model '{name}' is one of --other-model, which are served from the server's "
                f"start to its end: only '{self.options.model_name}' is profiled or loaded anew.",
            )
        if name != self.options.model_name:
            raise self._unknown(name)

    def _unknown(self, name: str) -> RequestRefusedError:
        names = self.options.model_names
        served = ", ".join(f"'{each}'" for each in names)
        advice = "name one of these" if len(names) > 1 else "name that one"
        return RequestRefusedError(
            RefusalReason.NOT_FOUND,
            f"The model '{name}' was requested, but this server has only {served}: {advice}.",
        )
