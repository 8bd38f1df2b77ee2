"""Tracing of a run: fetches the spans of servers after each step, and joins them."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

from inferometer_api.results.tracing import StepTracing
from inferometer_api.runtimes.descriptor import LOOPBACK, Place
from inferometer_api.spec.load import Tracing
from inferometer_loadgen.drive import LoadDriver
from inferometer_loadgen.record.request_tracer import ClientTrace
from inferometer_loadgen.run.faults import NotAvailableError
from inferometer_loadgen.run.otlp_receiver import OtlpReceiver
from inferometer_loadgen.server.control_plane import (
    ControlPlane,
    ServerDescription,
    SpansRefusedError,
)
from inferometer_loadgen.server.servers import Servers
from inferometer_loadgen.tracing.clocks import ClientClock, ServerClock
from inferometer_loadgen.tracing.join import MOST_KEPT, step_tracing
from inferometer_loadgen.tracing.spans import ReceivedSpan

EXTENSION = "spans"
"""The server's extension of the protocol: POST /v2/spans, or Spans/Take over gRPC."""
TRITON_EXTENSION = "trace"
_OFF, _TIMESTAMPS = "OFF", "TIMESTAMPS"
_LAST_SPANS_SECONDS = 6.0
"""How long to wait for spans after a step: exporters of OpenTelemetry send every 5 s."""
_CLOCK_READS = 8
_MOST_OF_A_PROBE = 10
"""Queries in the result: a search has many probes."""


@asynccontextmanager
async def open_receiver(port: int | None, place: Place) -> AsyncIterator[OtlpReceiver | None]:
    """Open the receiver of spans, if the run has one; raises NotAvailableError.

    It listens on loopback, or on all addresses of a pod.
    """
    if port is None:
        yield None
        return
    receiver = OtlpReceiver()
    try:
        await receiver.listen(LOOPBACK.host if place == "Local" else None, port)
    except OSError as error:
        where = LOOPBACK.host if place == "Local" else "the load generator's pod"
        raise NotAvailableError(
            f"spec.load.tracing.receiverPort: Cannot listen on port {port} of {where}: "
            f"{error.strerror}. End the program that uses it, or choose another port."
        ) from error
    try:
        yield receiver
    finally:
        await receiver.close()


class RunTracing:
    """Traces the steps of one run."""

    def __init__(
        self,
        tracing: Tracing,
        servers: Servers,
        descriptions: Sequence[ServerDescription],
        receiver: OtlpReceiver | None,
        spans_url: str,
    ) -> None:
        self._sample_every = tracing.sample_every
        self._servers = servers
        self._have_spans = [EXTENSION in each.extensions for each in descriptions]
        self._have_settings = [TRITON_EXTENSION in each.extensions for each in descriptions]
        self._raised_level = False
        self._receiver = receiver
        self._spans_url = spans_url or f"http://{LOOPBACK.host}:PORT/v1/traces"

    async def prepare(self) -> list[str]:
        """Let Triton trace with time stamps; return a sentence for each server that cannot."""
        notes = []
        for control in await self._with_settings():
            found = await control.trace_settings()
            mode = found.get("trace_mode", "")
            if mode and mode != "opentelemetry":
                notes.append(
                    f"The server at {control.address} sends no spans, because its trace mode is "
                    f"{mode}. Start it with --trace-config mode=opentelemetry and --trace-config "
                    f"opentelemetry,url={self._spans_url}."
                )
            elif found.get("trace_level") == _OFF:
                await control.trace_settings({"trace_level": [_TIMESTAMPS]})
                self._raised_level = True
            await control.close()
        return notes

    async def close(self) -> None:
        """Take the change of Triton's settings back."""
        if not self._raised_level:
            return
        self._raised_level = False
        for control in await self._with_settings():
            await control.trace_settings({"trace_level": [_OFF]})
            await control.close()

    async def _with_settings(self) -> list[ControlPlane]:
        """Return a control plane of each server with Triton's trace extension."""
        found = []
        for control, has_settings in zip(
            self._servers.controls(), self._have_settings, strict=True
        ):
            if has_settings:
                found.append(control)
            else:
                await control.close()
        return found

    def begin(self) -> None:
        """Forget the spans of earlier steps."""
        if self._receiver is not None:
            self._receiver.forget()

    async def step(self, driver: LoadDriver, *, is_probe: bool) -> StepTracing:
        """Return the traced queries of a step that is over, with the spans of its servers."""
        clock = ClientClock(driver.window_ns, unix_offset_ns(), _boot_id())
        traces = driver.traces
        spans, notes = await self._fetch_spans()
        if self._receiver is not None:
            spans += await self._receive_spans(self._receiver, traces)
            notes += self._receiver.notes
        return step_tracing(
            traces,
            spans,
            self._clocks(),
            clock,
            sample_every=self._sample_every,
            notes=notes,
            most_kept=_MOST_OF_A_PROBE if is_probe else MOST_KEPT,
        )

    def _clocks(self) -> list[ServerClock]:
        return [
            ServerClock(each.address, is_here=_is_loopback(each.host))
            for each in self._servers.endpoints
        ]

    async def _fetch_spans(self) -> tuple[list[ReceivedSpan], list[str]]:
        """Return the spans of the servers that hand theirs out, and what was in the way."""
        spans: list[ReceivedSpan] = []
        notes: list[str] = []
        controls = self._servers.controls()
        try:
            for control, has_spans in zip(controls, self._have_spans, strict=True):
                if has_spans:
                    try:
                        spans += await control.take_spans()
                    except SpansRefusedError as error:
                        notes.append(str(error))
        finally:
            for control in controls:
                await control.close()
        return spans, notes

    async def _receive_spans(
        self, receiver: OtlpReceiver, traces: Sequence[ClientTrace]
    ) -> list[ReceivedSpan]:
        """Return what other programs sent, once every query has a root there or none follows."""
        missing = {trace.span_id.hex() for trace in traces}
        trace_ids = {trace.trace_id.hex() for trace in traces}
        if all(self._have_spans):
            return list(receiver.spans(trace_ids))
        until = time.monotonic() + _LAST_SPANS_SECONDS
        while missing:
            missing -= {span.parent_id for span in receiver.spans(trace_ids)}
            if missing and not await receiver.wait(until - time.monotonic()):
                break
        return list(receiver.spans(trace_ids))


def unix_offset_ns() -> int:
    """Return the wall clock minus the monotonic clock, from the quickest of a few readings."""
    readings = []
    for _ in range(_CLOCK_READS):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
