"""The canary before a suite on this machine."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.timestamps import format_time
from inferometer_cli.exits import FailedError
from inferometer_cli.local import node_benchmark
from inferometer_cli.local.suite import canary
from inferometer_cli.result_store import open_store
from inferometer_results.store.node_characteristics import keep_characteristics
from inferometer_serving.node.machine import machine_identity
from support.node_documents import a_figure, a_node_document


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a database of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def _keep(*, days_ago: int = 1, **changes: Any) -> None:
    """Keep a measurement of this machine that began on 2026-01-01 or another day of that month."""
    finished = format_time(datetime.now(UTC) - timedelta(days=days_ago))
    document = a_node_document(platform.node(), **changes)
    update = {"machine": machine_identity(), "finished_at": finished}
    with open_store(None) as store:
        keep_characteristics(store, document.model_copy(update=update))


def _measuring(monkeypatch: pytest.MonkeyPatch, fp32: float, *cautions: str) -> list[Sequence[str]]:
    asked: list[Sequence[str]] = []

    def measure(_: Any, only: Sequence[str], __: Any) -> Any:
        asked.append(only)
        figure = a_figure("gemm", "flop/s", fp32, engine="onnxruntime", precision="FP32")
        return a_node_document(figures=[figure], cautions=list(cautions))

    monkeypatch.setattr(node_benchmark, "measure_node", measure)
    return asked


@pytest.mark.usefixtures("database")
def test_a_machine_that_was_never_measured_has_no_canary_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured."""
    asked = _measuring(monkeypatch, 1e11)
    note = canary.look_at_machine()
    assert note == (
        "Whether this machine has changed is not known: `inferometer node` did not measure it in "
        "the last 30 days."
    )
    assert f"note: {note}" in " ".join(capsys.readouterr().err.split())
    assert asked == []


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(("fp32", "changed"), [(1.0e11, False), (6e10, True)])
def test_a_machine_that_has_changed_is_a_caution(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fp32: float,
    *,
    changed: bool,
) -> None:
    """10 % less within the intervals is none; 45 % less is, with both figures and the date."""
    _keep()
    _measuring(monkeypatch, fp32)
    note = canary.look_at_machine()
    shown = capsys.readouterr()
    assert ("This machine has changed" in shown.out + shown.err) == changed
    if changed:
        assert "gemm" in note
        assert "is 60.0 GFLOP/s; on 2026-01-01 it was 110 GFLOP/s (-45.5 %)." in note
    else:
        assert note == (
            "Before the suite this machine had not changed since 2026-01-01 (compared figures: 1; "
            "a change is above 10 %, and beyond all earlier intervals)."
        )
        assert f"note: {note}" in " ".join(shown.err.split())


@pytest.mark.usefixtures("database")
def test_figures_that_were_not_measured_before_are_no_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then whether the machine has changed is not known."""
    _keep(figures=[a_figure("pageFault", "ns", 200)])
    _measuring(monkeypatch, 6e10)
    assert canary.look_at_machine() == (
        "Whether this machine has changed is not known: none of the canary's figures was measured "
        "both now and before."
    )


@pytest.mark.usefixtures("database")
def test_a_canary_that_fails_is_a_note_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite goes on."""

    def measure(*_: Any) -> Any:
        raise FailedError("The node benchmark was killed.")

    _keep()
    monkeypatch.setattr(node_benchmark, "measure_node", measure)
    assert canary.look_at_machine() == (
        "Whether this machine has changed is not known: the canary failed: The node benchmark was "
        "killed."
    )


@pytest.mark.usefixtures("database")
def test_cautions_stand_with_an_unchanged_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was busy both times may have changed all the same."""
    _keep(cautions=["The CPU was throttled."])
    _measuring(monkeypatch, 1e11)
    doubt = "A measurement has cautions: The CPU was throttled."
    assert canary.look_at_machine().endswith(doubt)


@pytest.mark.usefixtures("database")
def test_a_measurement_of_some_figures_hides_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure is compared with the newest measurement that has it."""
    _keep(day=1, days_ago=2)
    _keep(day=2, figures=[a_figure("pageFault", "ns", 200)])
    _measuring(monkeypatch, 6e10)
    assert "is 60.0 GFLOP/s; on 2026-01-01 it was 110 GFLOP/s" in canary.look_at_machine()


@pytest.mark.usefixtures("database")
def test_what_went_on_meanwhile_stands_with_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A busy machine seems slower; the cautions of both measurements say so."""
    _keep(cautions=["The CPU was throttled."])
    _measuring(monkeypatch, 6e10, "Other processes took 40.0% of the CPU time.")
    doubt = (
        "A figure was measured once before: how far it differs between measurements of an "
        "unchanged node is not known. "
        "It may not be the node that changed, for a measurement has cautions: "
        "Other processes took 40.0% of the CPU time. The CPU was throttled."
    )
    assert canary.look_at_machine().endswith(f"(-45.5 %). {doubt}")
    shown = capsys.readouterr()
    assert f"note: {doubt}" in " ".join((shown.out + shown.err).split())


@pytest.mark.usefixtures("database")
def test_an_expired_measurement_is_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 30 days the figures no longer count, and nothing is measured."""
    _keep(days_ago=31)
    asked = _measuring(monkeypatch, 6e10)
    assert "did not measure it in the last 30 days" in canary.look_at_machine()
    assert asked == []
