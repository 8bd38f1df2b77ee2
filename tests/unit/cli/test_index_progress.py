"""An index that is made anew shows how far it is."""

import io

import pytest
from rich.console import Console

from inferometer_cli import result_store
from inferometer_cli.result_store import IndexProgress


def test_lines_say_how_far_it_is_and_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """One each five seconds; at its end none."""
    seconds = iter([0.0, 4.0, 10.0, 12.0, 20.0, 30.0])
    with IndexProgress(lambda: next(seconds)) as show:
        for done in (200, 600, 2_000, 2_200, 4_000, 6_000):
            show(done, 6_000)
    assert capsys.readouterr().err.splitlines() == [
        "Indexing results: 2,000 of 6,000, 20 s left.",
        "Indexing results: 4,000 of 6,000, 10 s left.",
    ]


def test_a_terminal_has_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn once it takes long."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(result_store, "error_console", lambda: console)
    seconds = iter([0.0, 4.0, 10.0, 12.0])
    with IndexProgress(lambda: next(seconds)) as show:
        for done in (200, 600):
            show(done, 6_000)
        assert screen.getvalue() == ""
        for done in (2_000, 2_200):
            show(done, 6_000)
    drawn = screen.getvalue()
    assert "Indexing results" in drawn
    assert "37%" in drawn
    assert drawn.endswith("\x1b[2K")
