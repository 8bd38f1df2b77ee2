"""`inferometer spans` shows and exports traced queries and profiles, and refuses in sentences."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from inferometer_api.results.result import StepProfile
from inferometer_api.results.tracing import StepTracing
from inferometer_cli.span_export import otlp_target
from inferometer_results.export.chrome_trace import chrome_trace
from inferometer_results.export.otlp import otlp_message
from support.command import Command
from support.fake_load import free_port
from support.profiled_results import a_profiled_result, recorded_cpu_profile
from support.results import a_result
from support.traced_results import a_traced_result
from support.waiting import join_thread


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


@pytest.fixture
def traced(tmp_path: Path) -> str:
    """Return the path of a traced result."""
    path = tmp_path / "result.json"
    path.write_text(a_traced_result().model_dump_json(by_alias=True, exclude_none=True))
    return str(path)


def test_the_table_compares_slow_queries_with_the_median(inferometer: Command, traced: str) -> None:
    """Each part has a row with both figures and the difference, and the latency comes last."""
    shown = inferometer("spans", traced)
    assert shown.code == 0
    assert "90.0 % of the difference is in queue (server)." in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["server", "queue", "1.00", "37.0", "36.0"] in rows
    assert ["latency", "10.0", "50.0", "40.0"] in rows


def test_json_has_every_part_and_query(inferometer: Command, traced: str) -> None:
    """--json prints what the result holds of the traced steps."""
    shown = inferometer("spans", traced, "--json")
    (row,) = json.loads(shown.stdout)
    assert StepTracing.model_validate(row["tracing"]).queries[1].latency_nanoseconds == 50_000_000


def test_a_result_without_spans_is_refused_with_what_to_do(
    inferometer: Command, tmp_path: Path
) -> None:
    """The sentence names the setting and the command."""
    path = tmp_path / "result.json"
    path.write_text(a_result().model_dump_json(by_alias=True, exclude_none=True))
    refused = inferometer("spans", str(path))
    assert refused.code == 2
    assert "has no traced queries and no profiled inference" in refused.stderr
    assert "spec.load.tracing.sampleEvery=100" in refused.stderr
    assert "`inferometer profile`" in refused.stderr


def test_a_profile_is_shown_and_exported(inferometer: Command, tmp_path: Path) -> None:
    """Its layers are in the table, in JSON, in the timeline and in the file of OTLP."""
    document = a_profiled_result(recorded_cpu_profile())
    path = tmp_path / "result.json"
    path.write_text(document.model_dump_json(by_alias=True, exclude_none=True))
    files = [str(tmp_path / name) for name in ("trace.json", "spans.json")]
    shown = inferometer("spans", str(path), "--perfetto", files[0], "--otlp", files[1])
    assert shown.code == 0
    assert "The 40 layers sum to" in shown.stdout
    assert Path(files[0]).read_text() == chrome_trace(document)
    assert Path(files[1]).read_bytes() == otlp_message(document) + b"\n"
    (row,) = json.loads(inferometer("spans", str(path), "--json").stdout)
    assert StepProfile.model_validate(row["profile"]) == recorded_cpu_profile()


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:4318", "localhost:4318/v1/traces", "ftp://x", "http://", "http://["),
        *("nonsense", "http://127.0.0.1:port"),
    ],
)
def test_a_bad_address_of_a_collector_is_refused(
    inferometer: Command, traced: str, url: str
) -> None:
    """--otlp takes http:// and https:// only."""
    refused = inferometer("spans", traced, "--otlp", url)
    assert refused.code == 2
    assert "--otlp expects a URL such as http://127.0.0.1:4318" in refused.stderr


def test_no_collector_is_a_sentence(inferometer: Command, traced: str) -> None:
    """A connection that is refused is named with its address."""
    failed = inferometer("spans", traced, "--otlp", f"http://127.0.0.1:{free_port()}")
    assert failed.code == 1
    assert "Cannot send spans to http://127.0.0.1:" in failed.stderr
    assert "Connection refused" in failed.stderr


@contextmanager
def _answering(status: int, words: str) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(words)))
            self.end_headers()
            self.wfile.write(words.encode())

        @override
        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        join_thread(thread, "the end of the collector")
        server.server_close()


def test_what_a_collector_rejects_is_told_in_its_words(inferometer: Command, traced: str) -> None:
    """Its status and its text are in the sentence."""
    with _answering(415, "only protobuf") as port:
        failed = inferometer("spans", traced, "--otlp", f"http://127.0.0.1:{port}/v1/traces")
    assert failed.code == 1
    assert "answered 415" in failed.stderr
    assert "only protobuf" in failed.stderr


def test_spans_that_a_collector_rejects_are_counted(inferometer: Command, traced: str) -> None:
    """OTLP answers 200, and says in the body how many it did not take."""
    words = '{"partialSuccess": {"rejectedSpans": "41", "errorMessage": "They are too old."}}'
    with _answering(200, words) as port:
        failed = inferometer("spans", traced, "--otlp", f"http://127.0.0.1:{port}")
    assert failed.code == 1
    assert "rejected 41 spans: They are too old." in failed.stderr


def test_a_port_of_grpc_is_a_sentence(inferometer: Command, traced: str) -> None:
    """It speaks HTTP/2, which is no answer to HTTP/1.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"\0\0\0\4\0\0\0\0\0")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        failed = inferometer("spans", traced, "--otlp", url)
        join_thread(thread, "the answer of the port")
    assert failed.code == 1
    assert f"Cannot send spans to {url}/v1/traces" in failed.stderr
    assert "4317 is that of gRPC" in failed.stderr


def test_an_address_keeps_its_query() -> None:
    """The path goes before it."""
    assert otlp_target("http://h:4318?key=1") == "http://h:4318/v1/traces?key=1"
    assert otlp_target("https://h/") == "https://h/v1/traces"
    assert otlp_target("http://h/own/path") == "http://h/own/path"


def test_two_exports_to_one_file_are_refused(inferometer: Command, traced: str) -> None:
    """One would replace the other."""
    refused = inferometer("spans", traced, "--perfetto", "a.json", "--otlp", "./a.json")
    assert refused.code == 2
    assert "--perfetto and --otlp would both write a.json" in refused.stderr


def test_a_full_disk_is_a_sentence(inferometer: Command, traced: str) -> None:
    """A trace that cannot be written says why."""
    failed = inferometer("spans", traced, "--perfetto", "/dev/full")
    assert failed.code == 1
    assert "Cannot write /dev/full: No space left on device." in failed.stderr
