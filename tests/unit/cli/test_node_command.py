"""`inferometer node` keeps and prints what was measured before the benchmark ended."""

import json
import sys
from pathlib import Path
from typing import Literal

import pytest

from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_cli.commands import node as node_command
from inferometer_cli.commands.node import node
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local import node_benchmark
from inferometer_cli.local.node_benchmark import EndedEarlyError, measure_node
from inferometer_cli.result_store import open_store
from inferometer_results.store.node_characteristics import (
    keep_characteristics,
    known_characteristics,
)
from support.node_documents import a_figure, a_node_document, recorded_gpu_node

_NAMES = ["pageFault", "stream (1 threads)", "latency/load"]


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the benchmark killed while it measures the second of three primitives."""
    _run_instead(tmp_path, monkeypatch, measured=True)


def _run_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, measured: bool) -> None:
    document = a_node_document(figures=[]).model_dump(mode="json", by_alias=True, exclude_none=True)
    figure = a_figure("pageFault", "ns", 250.0).model_dump(mode="json", by_alias=True)
    events = [
        {"event": "began", "names": _NAMES, "document": document},
        *(
            [{"event": "measured", "name": _NAMES[0], "figures": [figure], "unavailable": {}}]
            if measured
            else []
        ),
        {"event": "progress", "done": 1, "total": 3, "name": _NAMES[1]},
    ]
    log = tmp_path / "events"
    log.write_text("".join(f"{json.dumps(each)}\n" for each in events))
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ncat {log}\nkill -9 $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.usefixtures("killed")
def test_figures_of_a_killed_benchmark_are_kept_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command fails all the same, and says which primitive ended it and what is missing."""
    database = str(tmp_path / "results.db")
    with pytest.raises(FailedError, match="signal SIGKILL"):
        node(database=database)
    with open_store(database) as store:
        (kept,) = known_characteristics(store)
    assert [each.name for each in kept.figures] == ["pageFault"]
    assert kept.unavailable == {
        "stream (1 threads)": "the benchmark ended while this was measured",
        "latency/load": "the benchmark ended before it",
        "loopback": "the benchmark ended before it",
    }
    printed = capsys.readouterr().out
    assert "250 ns" in printed
    assert "Not measured: stream (1 threads): the benchmark ended while" in printed


def test_figures_are_printed_though_the_database_cannot_be_written_any_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command fails after them."""
    database = tmp_path / "results.db"

    def measure(*_: object) -> NodeCharacteristics:
        for each in tmp_path.glob("results.db*"):
            each.unlink()
        database.mkdir()
        return a_node_document()

    monkeypatch.setattr(node_benchmark, "measure_node", measure)
    with pytest.raises(FailedError, match=r"results\.db"):
        node(database=str(database))
    assert "stream/triad" in capsys.readouterr().out


def test_a_database_that_cannot_be_opened_ends_the_command_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three minutes of measurement are not lost to a wrong --database."""
    measured: list[object] = []
    monkeypatch.setattr(node_benchmark, "measure_node", measured.append)
    with pytest.raises(FailedError, match="nowhere"):
        node(database="/proc/nowhere/results.db")
    assert measured == []


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ([""], "--only is empty"),
        (["stream", ""], "--only is empty"),
        (["podToPod"], "between two nodes of a cluster"),
        (["po"], "between two nodes of a cluster"),
        (["gemm", "podToPod/roundTrip"], "between two nodes of a cluster"),
    ],
)
def test_names_that_measure_nothing_or_everything_here_are_refused(
    only: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty name begins every name; the wire between pods needs a second node."""
    monkeypatch.setattr(node_benchmark, "measure_node", lambda *_: pytest.fail("measured"))
    with pytest.raises(RefusedError, match=words):
        node(only=only, save=False)


def test_the_begin_of_several_names_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """`p` begins pageFault and pageCache, too."""
    taken: list[object] = []

    def measure(_: object, only: object, __: object) -> NodeCharacteristics:
        taken.append(only)
        return a_node_document()

    monkeypatch.setattr(node_benchmark, "measure_node", measure)
    node(only=["p"], save=False)
    assert taken == [["p"]]


def test_a_document_is_kept_though_it_cannot_be_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of the output may have closed it: `inferometer node | head`."""

    def close_pipe(_: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(node_benchmark, "measure_node", lambda *_: a_node_document())
    monkeypatch.setattr(node_command, "print_output", close_pipe)
    database = str(tmp_path / "results.db")
    with pytest.raises(BrokenPipeError):
        node(database=database)
    with open_store(database) as store:
        assert len(known_characteristics(store)) == 1


@pytest.mark.usefixtures("killed")
def test_a_caller_gets_what_a_killed_benchmark_measured() -> None:
    """The document comes with the error."""
    reports: list[tuple[int, int, str]] = []
    with pytest.raises(EndedEarlyError) as caught:
        measure_node(None, (), lambda *report: reports.append(report))
    assert reports == [(1, 4, _NAMES[1])]
    assert [each.name for each in caught.value.document.figures] == ["pageFault"]


def test_a_server_that_does_not_start_costs_the_loopback_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its reason stands where the figures would, and the command does not fail."""
    monkeypatch.setattr(node_benchmark, "wire_server_command", lambda *_, **__: ["false"])
    found = measure_node(None, ("loopback",), lambda *_: None)
    assert [each.name for each in found.figures] == ["steal"]
    assert found.unavailable == {
        "loopback": "The server exited at once (exit code 1). It printed nothing"
    }


def test_a_benchmark_that_is_killed_at_once_has_no_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a figure there is nothing to keep."""
    _run_instead(tmp_path, monkeypatch, measured=False)
    database = tmp_path / "results.db"
    with pytest.raises(FailedError, match="signal SIGKILL"):
        node(database=str(database))
    with open_store(str(database)) as store:
        assert known_characteristics(store) == []


@pytest.mark.parametrize("format_", ["json", "comm-scope"])
def test_figures_to_compare_with_need_the_table(
    format_: Literal["json", "comm-scope"], tmp_path: Path
) -> None:
    """Nothing is measured: the other formats have no place for them."""
    with pytest.raises(RefusedError, match="leave out --format"):
        node(compare=tmp_path / "published.json", format_=format_)


def test_a_stored_measurement_is_compared_with_a_published_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured, so that the node may be any; figures without counterpart are counted."""
    monkeypatch.setattr(node_benchmark, "measure_node", lambda *_: pytest.fail("measured"))
    database = str(tmp_path / "results.db")
    recorded = recorded_gpu_node()
    with open_store(database) as store:
        keep_characteristics(store, recorded)
    name = recorded.machine.hostname
    node(stored=name, format_="comm-scope", database=database)
    published = json.loads(capsys.readouterr().out)
    entry = next(each for each in published["benchmarks"] if "PinnedToGPU" in each["name"])
    other = {**entry, "name": "Comm_cudaMemcpyAsync_PinnedToGPU/9/9/log2(N):28", "cuda_id": 9}
    file = tmp_path / "published.json"
    file.write_text(json.dumps({"benchmarks": [entry, other]}))
    node(stored=name, compare=file, database=database)
    printed = " ".join(capsys.readouterr().out.split())
    figure = recorded.figure("cudaMemcpyAsync_PinnedToGPU", bytes=str(entry["bytes"]))
    assert figure is not None
    ratio = figure.value / entry["bytes_per_second"]
    assert f"in the file ({ratio:.2f} times)." in printed
    assert "Figures of the file for other transfers, which are not compared: 1." in printed


def test_a_node_without_a_stored_measurement_is_refused(tmp_path: Path) -> None:
    """So are options of a measurement."""
    database = str(tmp_path / "results.db")
    with pytest.raises(RefusedError, match="has no measurement of node-9"):
        node(stored="node-9", database=database)
    with pytest.raises(RefusedError, match="leave out --folder and --only"):
        node(stored="node-9", only=["gemm"], database=database)
