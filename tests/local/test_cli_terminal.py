"""A terminal shows progress while a run works; a pipe gets plain lines."""

import json
import os
import pty
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import ResultDocument
from support.inferometer_process import COMMAND, Ended, Inferometer, run_file
from support.local_runs import Done, done, together
from support.onnx_models import identity, save

CALM: dict[str, Any] = {"server": {"targetQps": 20}}
"""A scenario that leaves the cores to other runs."""
BRIEF = ("preparing requests", "waiting for the last replies", "warning: ")
"""Stages that are mostly over before progress is shown again, and what other tests cause."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Done]]]:
    """Run one scenario without a terminal, with the table and as JSON."""
    folder = tmp_path_factory.mktemp("plain")
    with together(
        {
            "plain": lambda: done(folder / "plain", CALM),
            "json": lambda: done(folder / "json", CALM, words=("--json", "--progress", "json")),
        },
        at_once=2,
    ) as futures:
        yield futures


def test_a_program_reads_one_document(runs: dict[str, Future[Done]]) -> None:
    """With --json standard output is the kept document and nothing else."""
    run = runs["json"].result()
    assert ResultDocument.model_validate_json(run.ended.stdout) == run.result
    assert run.ended.stdout == (run.directory / "result.json").read_text()


def test_a_program_reads_the_progress(runs: dict[str, Future[Done]]) -> None:
    """With --progress json each line of standard error is an object, to the paths at the end."""
    run = runs["json"].result()
    events = [json.loads(line) for line in run.ended.stderr.splitlines()]
    assert [each["message"] for each in events if each["event"] == "stage"] == [
        *("fetching file:model.onnx", "starting the server")
    ]
    measuring = [each for each in events if each.get("stage") == "Measuring"]
    assert measuring[0]["scenario"] == "s0"
    assert all(each["secondsLeft"] >= 0 and not each["isBound"] for each in measuring)
    paths = {"result": "out/result.json", "report": "out/report.html"}
    assert events[-1].items() >= {"event": "result", **paths}.items()


def test_a_log_has_a_line_for_each_stage(runs: dict[str, Future[Done]]) -> None:
    """Without a terminal progress is plain lines on standard error, apart from the table."""
    run = runs["plain"].result()
    left = re.compile(r", about \d+ s left$")
    lines = [left.sub(", about N s left", line) for line in run.ended.stderr.splitlines()]
    shown = [re.sub(r"^stored  [0-9a-f]{12}$", "stored  ID", line) for line in lines]
    assert [line for line in shown if not any(brief in line for brief in BRIEF)] == [
        "fetching file:model.onnx",
        "starting the server",
        "waiting for the server",
        "s0 (1/1): measuring, about N s left",
        "",
        "result  out/result.json",
        "report  out/report.html",
        "stored  ID",
    ]
    assert "p99" in run.ended.stdout.splitlines()[0]
    assert "\x1b" not in run.ended.stdout + run.ended.stderr


def test_a_terminal_shows_progress_that_moves(tmp_path: Path) -> None:
    """On a terminal one line shows stage, rate and p99 and is wiped before the table."""
    save(identity(), tmp_path / "model.onnx")
    run_file(tmp_path, CALM, validity={"minDurationSeconds": 2})
    ended, text = _on_terminal(tmp_path, "run", "run.yaml", "--output", "out")
    assert ended.code in {0, 3}, text
    assert "s0 (1/1): measuring" in text
    assert "queries/s" in text
    assert "\x1b[2K" in text
    assert text.count("starting the server") >= 1
    assert "report  out/report.html" in text


def test_a_terminal_shows_a_refusal_of_the_server_once(tmp_path: Path) -> None:
    """The line of JSON is for programs: on a terminal the sentence stands alone."""
    save(identity(), tmp_path / "model.onnx")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("serve", "file:model.onnx", "--http-port", port, "--grpc-port", "0")
        ended, text = _on_terminal(tmp_path, *words)
    assert ended.code == 2, text
    assert text.startswith("refused: ")
    assert text.count(port) == 1, text


def _on_terminal(folder: Path, *words: str) -> tuple[Ended, str]:
    """Run a command whose output is a terminal; return its end and what the terminal received."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm-256color", "NO_COLOR": ""}
    process = Inferometer(folder, *words, env=environment, terminal=theirs)
    os.close(theirs)
    seen = bytearray()
    reader = threading.Thread(target=_read_all, args=(ours, seen))
    reader.start()
    try:
        ended = process.ended()
    finally:
        process.close()
        reader.join()
        os.close(ours)
    return ended, seen.decode()


def _read_all(descriptor: int, into: bytearray) -> None:
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # what a terminal says when its other end is closed
            return
        if not piece:
            return
        into += piece


@pytest.mark.parametrize(("reader", "lines"), [("head -1", 1), ("true", 0)])
def test_a_reader_that_has_seen_enough_is_no_fault(reader: str, lines: int) -> None:
    """`inferometer models | head -1` ends 0 and complains of nothing."""
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {COMMAND} models | {reader}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0
    assert len(ended.stdout.splitlines()) == lines
    assert ended.stderr == ""


def test_a_run_goes_on_without_a_reader(tmp_path: Path) -> None:
    """A reader that stops after the first line still gets the result and the exit code."""
    save(identity(), tmp_path / "model.onnx")
    run_file(tmp_path, CALM)
    ended = subprocess.run(
        ["bash", "-c", f"{COMMAND} run run.yaml -o out 2>&1 | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "fetching file:model.onnx\n"
    assert ended.stderr == ""
    result = ResultDocument.model_validate_json((tmp_path / "out" / "result.json").read_bytes())
    assert ended.returncode == (0 if result.valid else 3)
