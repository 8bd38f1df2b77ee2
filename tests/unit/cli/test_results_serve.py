"""`inferometer results serve` listens where it may, and refuses with what to do."""

import gc
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from support.command import Command


@pytest.fixture
def inferometer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run a command with an empty database."""
    monkeypatch.setenv("INFEROMETER_DATABASE", str(tmp_path / "results.db"))
    return Command(monkeypatch, capsys)


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Yield the addresses that servers listen on; they end at once."""
    found: list[tuple[str, int]] = []

    def run(_: uvicorn.Server, sockets: list[socket.socket]) -> None:
        found.extend(each.getsockname()[:2] for each in sockets)

    monkeypatch.setattr(uvicorn.Server, "run", run)
    yield found
    gc.unfreeze()


def test_it_listens_on_loopback_and_prints_where(
    inferometer: Command, listeners: list[tuple[str, int]]
) -> None:
    """Port 0 takes a free one."""
    completed = inferometer("results", "serve", "--port", "0")
    assert completed.code == 0
    ((host, port),) = listeners
    assert host == "127.0.0.1"
    assert re.match(rf"Results: http://127\.0\.0\.1:{port}/ ", completed.stderr)


def test_collections_do_not_pass_over_the_imports(
    inferometer: Command, listeners: list[tuple[str, int]]
) -> None:
    """They are frozen when the server begins: a request would wait for a full collection."""
    before = gc.get_freeze_count()
    assert inferometer("results", "serve", "--port", "0").code == 0
    assert len(listeners) == 1
    assert gc.get_freeze_count() - before > 10_000


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "bench.example"])  # noqa: S104
def test_other_machines_need_a_token(
    inferometer: Command, listeners: list[tuple[str, int]], host: str
) -> None:
    """Nothing is opened without it."""
    completed = inferometer("results", "serve", "--host", host)
    assert (completed.code, listeners) == (2, [])
    assert "--token-file" in completed.stderr


@pytest.mark.parametrize("token", ["", "short", "0123456789abcde\n", "\N{SNOWMAN}" * 20])
def test_a_weak_token_is_refused(inferometer: Command, tmp_path: Path, token: str) -> None:
    """The message says how to write a good one."""
    file = tmp_path / "token"
    file.write_text(token)
    completed = inferometer("results", "serve", "--token-file", str(file))
    assert completed.code == 2
    assert "openssl rand -hex 32" in completed.stderr
    assert inferometer("results", "serve", "--token-file", "nowhere").code == 2


def test_with_a_token_it_may_listen_elsewhere(
    inferometer: Command, listeners: list[tuple[str, int]], tmp_path: Path
) -> None:
    """The token stands in a file, never on the command line."""
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    words = ("--host", "0.0.0.0", "--port", "0", "--token-file", str(file))  # noqa: S104
    assert inferometer("results", "serve", *words).code == 0
    assert listeners[0][0] == "0.0.0.0"  # noqa: S104


def test_a_port_in_use_is_refused(inferometer: Command) -> None:
    """With the option that gives another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        completed = inferometer("results", "serve", "--port", port)
    assert completed.code == 2
    assert f"Cannot listen on 127.0.0.1, port {port}" in completed.stderr
    assert "--port" in completed.stderr
