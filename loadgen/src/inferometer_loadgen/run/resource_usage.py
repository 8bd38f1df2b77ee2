"""CPU and memory that the server and the load generator use during one step."""

import time
from collections.abc import Sequence
from contextlib import suppress

import psutil
from typing_extensions import override

from inferometer_api.results.result import UsageSample
from inferometer_loadgen.client.load_client import LoadClient
from inferometer_loadgen.drive import StepObserver
from inferometer_loadgen.record.bounded_series import BoundedSeries
from inferometer_loadgen.run.step_result import Used
from inferometer_loadgen.schedule.steps import SECOND_NS


class ResourceUsage(StepObserver):
    """Samples CPU and memory once a second and thins the samples of a long step.

    The server's processes are those given and the children that they have when the step begins:
    looking for new children would cost the measurement milliseconds.
    """

    def __init__(self, process_ids: Sequence[int], client: LoadClient) -> None:
        self._server = _with_children(process_ids)
        self._samples: BoundedSeries[UsageSample] = BoundedSeries()
        self._client = client
        self._server_cpu_seconds: float | None = None
        self.begin_window()

    @override
    def begin_window(self) -> None:
        self._client.begin()
        self._begin_ns = self._last_ns = time.monotonic_ns()
        self._last_client = 0.0
        self._begin_server = self._last_server = self._server_cpu()

    @override
    def second(self) -> None:
        self._client.second()
        if not self._samples.is_due():
            return
        now, client, server = time.monotonic_ns(), self._client.cpu_seconds(), self._server_cpu()
        passed = max(1, now - self._last_ns) / SECOND_NS
        self._samples.add(
            UsageSample(
                at_milliseconds=(now - self._begin_ns) // 1_000_000,
                server_cpu_cores=_rate(self._last_server, server, passed),
                server_memory_bytes=self._server_memory(),
                client_cpu_cores=(client - self._last_client) / passed,
                client_memory_bytes=self._client.memory_bytes(),
            )
        )
        self._last_ns, self._last_client, self._last_server = now, client, server

    @override
    def end_window(self) -> None:
        self._server_cpu_seconds = self.server_cpu_seconds()

    def totals(self) -> Used:
        """Return what was used until now; the server's CPU time is that of the window alone."""
        return Used(
            self.samples,
            self._server_cpu_seconds,
            self.client_cpu_seconds(),
            self._client.facts(),
        )

    @property
    def samples(self) -> list[UsageSample]:
        """The samples so far."""
        return self._samples.entries

    def client_cpu_seconds(self) -> float:
        """Return the CPU seconds, user and system, of the client since the window began."""
        return self._client.cpu_seconds()

    def server_cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the server's processes on this machine since the window began.

        None if there are none here.
        """
        return _rate(self._begin_server, self._server_cpu(), 1.0)

    def _server_cpu(self) -> float | None:
        found = None
        for process in self._server:
            with suppress(psutil.Error):
                times = process.cpu_times()
                found = (found or 0.0) + times.user + times.system
        return found

    def _server_memory(self) -> int | None:
        found = None
        for process in self._server:
            with suppress(psutil.Error):
                found = (found or 0) + process.memory_info().rss
        return found


def _with_children(process_ids: Sequence[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process_id in process_ids:
        with suppress(psutil.Error):
            process = psutil.Process(process_id)
            found += [process, *process.children(recursive=True)]
    return found


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    # A child that has ended takes its CPU time with it: less than before is then 0.
    return None if before is None or after is None else max(0.0, after - before) / seconds
