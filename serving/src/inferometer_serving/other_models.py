"""Further models of a server: loaded at its start, and served until its end."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any

from inferometer_serving.errors import RequestRefusedError
from inferometer_serving.inference_stats import InferenceStats
from inferometer_serving.metadata import MODEL_VERSION
from inferometer_serving.metrics import ServerMetrics
from inferometer_serving.model.session import Interrupt
from inferometer_serving.options import ServeOptions
from inferometer_serving.request_router import Counters, Loaded, RequestRouter, load_and_warm
from inferometer_serving.start_up import StartUp
from inferometer_serving.statistics import Statistics


@dataclass(frozen=True, slots=True)
class FurtherModel:
    """One further model, with statistics of its own."""

    router: RequestRouter
    counters: Counters

    def document(self) -> dict[str, Any]:
        """Return the protocol's statistics of the model."""
        self.counters.inference_stats.settle()
        return self.counters.statistics.to_document(self.router.name, MODEL_VERSION)


class OtherModels(dict[str, FurtherModel]):
    """The further models of a server by name. Only the event loop's thread changes it."""

    def open(
        self,
        loop: asyncio.AbstractEventLoop,
        options: ServeOptions,
        loaded: Mapping[str, Loaded],
        metrics: ServerMetrics,
        server_version: str,
    ) -> None:
        """Serve models that are loaded."""
        for name, each in loaded.items():
            statistics = Statistics()
            counters = Counters(metrics, statistics, InferenceStats(metrics, statistics))
            router = RequestRouter(loop, options.of_other(name), each, counters, server_version)
            self[name] = FurtherModel(router, counters)

    @property
    def pending(self) -> int:
        """Return how many inferences wait or are computed."""
        return sum(len(each.router.pool.requests) for each in self.values())

    def drain(self) -> None:
        """Let no request wait for others to join it."""
        for each in self.values():
            each.router.pool.stop_delaying()

    def give_up(self, error: RequestRefusedError) -> None:
        """Answer all inferences in flight by an error."""
        for each in self.values():
            each.router.give_up(error)

    def stop(self, seconds_left: Callable[[], float]) -> bool:
        """End all threads; say whether they ended in time."""
        ended = [each.router.pool.stop(seconds_left()) for each in self.values()]
        return all(ended)


def load_others(options: ServeOptions, interrupt: Interrupt) -> dict[str, Loaded]:
    """Return all further models, open and warm. Raises ModelRefusedError; takes a while."""
    return {
        name: load_and_warm(options.of_other(name), interrupt, StartUp(time_ns() // 1000))
        for name in options.other_models
    }
