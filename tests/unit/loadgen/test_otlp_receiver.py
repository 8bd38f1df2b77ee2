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
TRACE_ID = f"{1:032x}"


def a_message() -> ExportTraceServiceRequest:
    """Return a message with one span."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=bytes.fromhex(TRACE_ID), span_id=bytes(7) + b"\x02", name="compute"
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
        assert [span.name for span in receiver.spans({TRACE_ID})] == ["compute"]
        assert [span.name for span in receiver.spans({TRACE_ID})] == ["compute"]
        receiver.forget()
        assert receiver.spans({TRACE_ID}) == []
        assert not await receiver.wait(0)

    received(act)


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "status"),
    [
        ("POST", "/v1/metrics", JSON, b"{}", 404),
        ("GET", "/v1/traces", JSON, b"", 405),
        ("POST", "/v1/traces", "text/plain", b"x", 415),
        ("POST", "/v1/traces", JSON, bytes((4 << 20) + 1), 413),
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
        assert receiver.spans({TRACE_ID}) == []

    received(act)


COMPRESSED = gzip.compress(a_message().SerializeToString())
MALFORMED = [
    (PROTOBUF, "identity", b"\xff\xff"),
    (JSON, "identity", b"{"),
    (JSON, "identity", b"[]"),
    (JSON, "identity", json.dumps({"resourceSpans": 3}).encode()),
    (PROTOBUF, "gzip", b"not compressed"),
    (PROTOBUF, "gzip", COMPRESSED[:10]),
    (PROTOBUF, "deflate", b"not compressed"),
]


def test_a_malformed_message_is_refused_and_noted_and_the_others_count() -> None:
    """One exporter's fault is answered 400, is named in the result, and costs no other spans."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        for kind, encoding, body in (
            *MALFORMED,
            (PROTOBUF, "identity", a_message().SerializeToString()),
        ):
            receiver.notes.clear()
            headers = {"Content-Type": kind, "Content-Encoding": encoding}
            async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
                is_malformed = (kind, encoding, body) in MALFORMED
                assert answer.status == (400 if is_malformed else 200), (encoding, body)
                assert ("cannot be read" in await answer.text()) == is_malformed
            assert [note.partition(":")[0] for note in receiver.notes] == (
                ["A message to the receiver of spans was not read"] if is_malformed else []
            )
        assert len(receiver.spans({TRACE_ID})) == 1

    received(act)


def test_many_faults_leave_few_notes() -> None:
    """An exporter that sends junk throughout a step does not fill the result."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        headers = {"Content-Type": JSON}
        for number in range(20):
            body = b" " * number + b"}"
            async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
                assert answer.status == 400
        assert len(receiver.notes) == 16

    received(act)


def test_a_span_in_json_without_its_fields_is_noted_after_the_step() -> None:
    """Single spans are not checked under load; the result says that some were not read."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}).encode()
        headers = {"Content-Type": JSON}
        async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
            assert answer.status == 200
        assert receiver.spans({TRACE_ID}) == []
        assert all("was not read" in note for note in receiver.notes)
        assert len(receiver.notes) == 1

    received(act)


def test_spans_of_other_traces_are_not_kept() -> None:
    """A message of half a million empty spans, 1 KB when compressed, costs nothing afterwards."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        spans = b"\x12\x00" * 500_000
        scope = b"\x12" + _varint(len(spans)) + spans
        flood = b"\x0a" + _varint(len(scope)) + scope
        headers = {"Content-Type": PROTOBUF, "Content-Encoding": "gzip"}
        for body in (flood, a_message().SerializeToString()):
            compressed = gzip.compress(body)
            async with client.post(f"{url}/v1/traces", data=compressed, headers=headers) as answer:
                assert answer.status == 200
        assert [span.trace_id for span in receiver.spans({TRACE_ID})] == [TRACE_ID]

    received(act)


def test_more_spans_than_a_step_can_hold_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones count, and the sentence says what to do."""
    monkeypatch.setattr("inferometer_loadgen.run.otlp_receiver._MOST_SPANS", 2)

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        for _ in range(4):
            body = a_message().SerializeToString()
            headers = {"Content-Type": PROTOBUF}
            async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
                assert answer.status == 200
        assert len(receiver.spans({TRACE_ID})) == 2
        assert list(receiver.notes) == ["Spans beyond 2 were not read: trace fewer queries."]

    received(act)


def _varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [("zstd", b"x", 415), ("gzip", gzip.compress(bytes((4 << 20) + 1)), 413)],
)
def test_an_encoding_that_is_not_read_and_a_bomb_are_refused(
    encoding: str, body: bytes, status: int
) -> None:
    """The limit of the size holds for the decompressed body."""

    async def act(receiver: OtlpReceiver, url: str, client: aiohttp.ClientSession) -> None:
        headers = {"Content-Type": PROTOBUF, "Content-Encoding": encoding}
        async with client.post(f"{url}/v1/traces", data=body, headers=headers) as answer:
            assert answer.status == status
        assert receiver.spans({TRACE_ID}) == []
        (note,) = receiver.notes
        assert note.startswith("A message to the receiver of spans was refused: ")

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
