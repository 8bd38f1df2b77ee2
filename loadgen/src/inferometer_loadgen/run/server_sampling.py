"""Samples of the servers' statistics at the edges of each step's window."""

import asyncio
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from inferometer_api.results.result import ServerTime
from inferometer_loadgen.drive import StepObserver
from inferometer_loadgen.server.control_plane import ControlPlane, ServerDescription
from inferometer_loadgen.server.servers import Servers
from inferometer_loadgen.server.statistics import EXTENSION, read_counters, server_time

_Answers = list[Any]


class ServerSampling:
    """Samples the statistics of all servers of a run, if all of them have the extension.

    Nothing here raises, whatever a server does.
    """

    def __init__(
        self,
        servers: Servers,
        descriptions: Sequence[ServerDescription],
        other_models: Sequence[str] = (),
    ) -> None:
        """Sample the run's model, and the others that its mixes name."""
        names = descriptions[0].settings.get("steps", "") if descriptions else ""
        self.steps = names.split(",") if names else []
        """The steps around the model that the servers run, in their order."""
        have_all = all(EXTENSION in each.extensions for each in descriptions)
        self._controls: list[ControlPlane] = servers.controls() if have_all else []
        for name in other_models if have_all else ():
            self._controls += servers.controls(name)

    async def sample(self) -> _Answers:
        """Return the answer of each server, None for one that failed."""
        return await asyncio.gather(*(each.statistics() for each in self._controls))

    def time_between(self, begin: _Answers, end: _Answers) -> ServerTime | None:
        """Return the difference of two samples; None if there is none."""
        return server_time([*map(read_counters, begin)], [*map(read_counters, end)], self.steps)

    def step(self) -> "ServerTimeObserver":
        """Return the observer of one step."""
        return ServerTimeObserver(self)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._controls))


class ServerTimeObserver(StepObserver):
    """Takes the samples around the window of one step."""

    def __init__(self, sampling: ServerSampling) -> None:
        self._sampling = sampling
        self._begin: asyncio.Task[_Answers] | None = None
        self._end: asyncio.Task[_Answers] | None = None

    @override
    def begin_window(self) -> None:
        self._begin = asyncio.create_task(self._sampling.sample())

    @override
    def end_window(self) -> None:
        self._end = asyncio.create_task(self._sampling.sample())

    async def time(self) -> ServerTime | None:
        """Wait for both samples and return the difference; None if there is none."""
        if self._begin is None or self._end is None:
            return None
        begin, end = await asyncio.gather(self._begin, self._end)
        return self._sampling.time_between(begin, end)
