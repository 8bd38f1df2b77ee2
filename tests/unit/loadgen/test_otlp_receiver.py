"""The receiver of spans takes OTLP/HTTP and refuses everything else in a sentence."""

import asyncio
import gzip
import io
import json
import socket
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from inferometer_loadgen.run.faults import NotAvailableError
from inferometer_loadgen.run.otlp_receiver import OtlpReceiver
from inferometer_loadgen.run.step_tracing import open_receiver
from support.waiting import DEADLINE_SECONDS

JSON, PROTOBUF = "application/json", "application/x-protobuf"


def a_message() -> ExportTraceServiceRequest:
    """Return a message with one span."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=bytes(15) + b"\x01", span_id=bytes(7) + b"\x02", name="compute"
    )
    return request


def received(act: Callable[[OtlpReceiver, str, aiohttp.ClientSession], Awaitable[None]]) -> None:
    """Run a receiver, and do something with it, its address and a client."""

    async def main() -> None:
        receiver = OtlpReceiver()
        port = await receiver.listen("127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession() as client:
                await act(receiver, f"http://127.0.0.1:{port}", client)
        finally:
            await receiver.close()

    asyncio.run(main())


@pytest.mark.parametrize("is_compressed", [False, True])
def test_spans_are_taken_and_forgotten(*, is_compressed: bool) -> None:
    """Messages in protobuf, compressed or not, are spans until a new step begins."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        body = a_message().SerializeToString()
        headers = {"Content-Type": PROTOBUF}
        if is_compressed:
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, PROTOBUF)
        assert await receiver.wait(DEADLINE_SECONDS), "the spans did not come"
        assert [span.name for span in receiver.spans()] == ["compute"]
        assert [span.name for span in receiver.spans()] == ["compute"]
        receiver.forget()
        assert receiver.spans() == []
        assert not await receiver.wait(0)

    received(act)


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "status"),
    [
        ("POST", "/v1/metrics", JSON, b"{}", 404),
        ("GET", "/v1/traces", JSON, b"", 405),
        ("POST", "/v1/traces", "text/plain", b"x", 415),
        ("POST", "/v1/traces", JSON, bytes((16 << 20) + 1), 413),
    ],
)
def test_what_is_no_message_is_refused(
    method: str, path: str, kind: str, body: bytes, status: int
) -> None:
    """Path, method, type and size are checked before anything is kept."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        headers = {"Content-Type": kind}
        async with client.request(
            method, url + path, data=io.BytesIO(body), headers=headers
        ) as answer:
            assert answer.status == status
        assert receiver.spans() == []

    received(act)


def test_a_malformed_message_is_noted_and_the_others_count() -> None:
    """One exporter's fault is a sentence in the result, and costs no other spans."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        for kind, body in (
            (PROTOBUF, b"\xff\xff"),
            (JSON, json.dumps({"resourceSpans": 3}).encode()),
            (PROTOBUF, a_message().SerializeToString()),
        ):
            headers = {"Content-Type": kind}
            async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
                assert answer.status == 200
        assert len(receiver.spans()) == 1
        assert len(receiver.notes) == 2
        assert all("was not read" in note for note in receiver.notes)

    received(act)


def test_a_port_in_use_refuses_the_run() -> None:
    """The sentence names the setting, the port and what to do."""

    async def main(port: int) -> None:
        async with open_receiver(port, "Local"):
            raise AssertionError("The port was free.")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotAvailableError, match=rf"receiverPort: Cannot listen on port {port}"):
            asyncio.run(main(port))
