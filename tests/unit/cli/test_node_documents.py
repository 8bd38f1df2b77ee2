"""What is known of this machine warns before a local run, and is kept with its result."""

import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from inferometer_api.layers.timings import LayerTimings, VariantTiming
from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.timestamps import format_time
from inferometer_cli.commands import bound as bound_command
from inferometer_cli.local.node_documents import load_generation_warnings, recent_measurements
from inferometer_cli.result_store import open_store
from inferometer_results.store.node_characteristics import keep_characteristics
from inferometer_serving.node.machine import machine_identity
from support.layer_graphs import MACHINE, layer_graph
from support.node_documents import a_figure, a_node_document
from support.onnx_models import identity, save


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a database of the test's own."""
    monkeypatch.delenv("INFEROMETER_DATABASE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "inferometer" / "results.db"


def _keep(*figures: NodeFigure, days_ago: int = 1, day: int = 1, **changes: object) -> None:
    finished = format_time(datetime.now(UTC) - timedelta(days=days_ago))
    document = a_node_document(platform.node(), day=day, figures=list(figures)).model_copy(
        update={"machine": machine_identity(), "finished_at": finished, **changes}
    )
    with open_store(None) as store:
        keep_characteristics(store, document)


_STILL = a_figure("jitter/share", "share", 0.82)
_QUIET = a_figure("jitter/share", "share", 0.001)


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        (_STILL, "a running process stood still for 82.0% of the time"),
        (a_figure("steal", "share", 0.021), "gave 2.1% of the CPU time to others"),
        (
            a_figure("timer/wakeUpLag", "ns", 2_860_000, percentile=99),
            "a timer of 1 ms was late by 2.86 ms (p99)",
        ),
    ],
)
def test_a_machine_that_is_unfit_to_generate_load_is_a_warning(
    figure: NodeFigure, words: str
) -> None:
    """Jitter, steal and late timers are in every latency that is measured from it."""
    _keep(figure)
    (warning,) = load_generation_warnings()
    assert warning.startswith("When `inferometer node` measured this machine on 2026-01-01, ")
    assert words in warning


def test_a_fit_machine_is_none() -> None:
    """Nor are figures that say nothing about it, or a high median of the lag."""
    _keep(
        _QUIET,
        a_figure("steal", "share", 0.001),
        a_figure("timer/wakeUpLag", "ns", 2_860_000, percentile=50),
        a_figure("timer/wakeUpLag", "ns", 90_000, percentile=99),
        a_figure("stream/triad", "bytes/s", 1e9, threads=1),
    )
    assert load_generation_warnings() == []


def test_the_newest_measurement_of_each_figure_counts() -> None:
    """A later one of other figures does not hide it; one of the same figure replaces it."""
    _keep(_STILL, days_ago=3, day=1)
    _keep(a_figure("pageFault", "ns", 250.0), days_ago=2, day=2)
    assert len(load_generation_warnings()) == 1
    _keep(_QUIET, days_ago=1, day=3)
    assert load_generation_warnings() == []


def test_a_measurement_expires() -> None:
    """After 30 days the machine may have changed."""
    _keep(_STILL, days_ago=31)
    assert load_generation_warnings() == []


def test_another_machine_of_the_same_name_does_not_count() -> None:
    """Names of virtual machines return with other CPUs."""
    other = machine_identity().model_copy(update={"cpu_model": "Another CPU"})
    _keep(_STILL, machine=other)
    assert load_generation_warnings() == []
    with open_store(None) as store:
        assert recent_measurements(store) == []


def test_no_database_is_made_for_a_warning(database: Path) -> None:
    """There is none to read."""
    assert load_generation_warnings() == []
    assert not database.exists()


def test_a_bound_takes_the_peaks_of_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command reads the node's measurements where it keeps its timings."""
    variant = VariantTiming(nanoseconds=[9000], precision="FP32", version="1", difference=0.0)
    peaks = {"flops_per_second": 1e11, "copy_bytes_per_second": 40e9}
    measured = LayerTimings(
        machine=MACHINE.model_copy(update=peaks), seconds=1.0, variants={"a:FP32:1": variant}
    )
    found = bound_command.BoundMeasurement(layer_graph(("Relu", [0], [1])), None, measured)
    monkeypatch.setattr(bound_command, "measure_bound", lambda *_: found)
    _keep(a_figure("gemm", "flop/s", 2e11, precision="FP32", threads=1))
    model = tmp_path / "model.onnx"
    save(identity(), model)
    bound_command.bound(str(model))
    assert "at 200.0 GFLOP/s and 40.0 GB/s" in capsys.readouterr().out
