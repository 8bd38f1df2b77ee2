"""Own headers are sent or refused, and errors never contain their values."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from tritonclient.grpc.service_pb2 import (  # type: ignore[import-untyped]  # has no types
    ModelInferResponse,
)

from inferometer_api.results.result import Tensor
from inferometer_loadgen.requests.inputs import InputRefusedError
from inferometer_loadgen.requests.replies import Expectation
from inferometer_loadgen.server.headers import read_headers
from inferometer_loadgen.server.servers import endpoints_of
from inferometer_loadgen.wire import ReplyBody
from inferometer_loadgen.wire.contract import printable_line, register_secrets
from support.load_runs import a_plan

SECRET = "s3cr3t"  # noqa: S105 - no secret of anybody's


def test_a_file_and_a_folder_say_the_same(tmp_path: Path) -> None:
    """Lines of a file and files of a mounted Secret are headers alike."""
    file = tmp_path / "headers"
    file.write_text(f"Authorization: Bearer {SECRET}\r\n\nX-Empty:\nx-time: 12:30\n")
    folder = tmp_path / "secret"
    (folder / "..data").mkdir(parents=True)
    (folder / "Authorization").write_text(f"Bearer {SECRET}\n")
    (folder / "X-Empty").write_text("")
    (folder / "x-time").write_text("12:30")
    expected = {("Authorization", f"Bearer {SECRET}"), ("X-Empty", ""), ("x-time", "12:30")}
    assert set(read_headers(file)) == expected
    assert set(read_headers(folder)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"just {SECRET}", "Line 1 of"),
        (f"a b: {SECRET}", "has an invalid name"),
        (f": {SECRET}", "has an invalid name"),
        (f"Host: {SECRET}", "sends itself"),
        (f"content-length: {SECRET}", "sends itself"),
        (f"Connection: {SECRET}", "about one connection"),
        (f"Transfer-Encoding: {SECRET}", "about one connection"),
        (f"grpc-timeout: {SECRET}", "reserved for gRPC"),
        (f"key-bin: {SECRET}", "binary metadata"),
        (f"x: {SECRET}\x00", "printable ASCII"),
        (f"x: {SECRET}\rHost: a", "printable ASCII"),
        (f"x: {SECRET}é", "printable ASCII"),
        (f"x: {SECRET}\nX: b", "occurs twice"),
        ("\n".join(f"x{index}: {SECRET}" for index in range(65)), "at most 64 headers"),
        (f"x: {SECRET * 4096}", "at most 64 headers"),
    ],
)
def test_invalid_headers_are_refused(text: str, words: str, tmp_path: Path) -> None:
    """A header that would break the protocol is named in the sentence, and its value is not."""
    path = tmp_path / "headers"
    path.write_bytes(text.encode())
    with pytest.raises(InputRefusedError, match=words) as refusal:
        read_headers(path)
    assert SECRET not in str(refusal.value)


def test_a_secret_with_lines_is_refused(tmp_path: Path) -> None:
    """A file of a folder is one value: a second line would be a header of its own."""
    (tmp_path / "x").write_text(f"{SECRET}\r\nHost: a\n")
    with pytest.raises(InputRefusedError, match="printable ASCII"):
        read_headers(tmp_path)


def test_missing_or_binary_headers_files_are_refused(tmp_path: Path) -> None:
    """A file that does not exist or is not text is refused with a sentence."""
    with pytest.raises(InputRefusedError, match="Headers file not found"):
        read_headers(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(InputRefusedError, match="are not readable text"):
        read_headers(tmp_path / "x")


def test_a_secret_that_a_server_sends_back_is_in_no_message(tmp_path: Path) -> None:
    """Whatever a refusal quotes, the values of headers are replaced before it is made shorter."""
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer 7f-q9Zx\nX-Key: k-5521\nX-Day: mon\n")
    plan = a_plan("http://127.0.0.1:1", {"singleStream": {}})
    endpoints_of(plan.model_copy(update={"headers_file": str(file)}))
    quoted = printable_line(
        "HTTP status 401: Authorization: Bearer 7f-q9Zx, or 7f-q9Zx; k-5521 on mon"
    )
    assert quoted == "HTTP status 401: Authorization: ***, or ***; *** on mon"
    for before in range(480, 500):
        assert "7f" not in printable_line("x" * before + " Bearer 7f-q9Zx " + "y" * 600)


@pytest.mark.parametrize("protocol", ["HTTP", "GRPC"])
def test_expected_replies_name_no_secret(protocol: Literal["HTTP", "GRPC"]) -> None:
    """Faults of a reply quote the server, too."""
    register_secrets(["n0b0dys"])
    document = {"outputs": [{"name": "n0b0dys", "datatype": "FP32", "shape": [1], "data": [1]}]}
    message: Any = ModelInferResponse()
    message.outputs.add(name="n0b0dys", datatype="FP32", shape=[1])
    body = json.dumps(document).encode() if protocol == "HTTP" else message.SerializeToString()
    promised = [Tensor(name="y", datatype="FP32", shape=[1])]
    fault = Expectation(protocol, promised, 1).fault(ReplyBody(body, None))
    assert fault is not None
    assert "***" in fault
    assert "n0b0dys" not in fault
