"""Progress of a run: a live bar on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from inferometer_api.plan.reports import STAGE_PHRASES, ProgressReport
from inferometer_results.quantity import significant, time_unit


@dataclass(frozen=True, slots=True)
class WebPage:
    """The address of Locust's web page, which shows what a fleet measures."""

    url: str

    def sentence(self) -> str:
        """Return the line to print."""
        return f"Locust's web page shows the fleet: {self.url}"


ProgressCallback = Callable[[ProgressReport | WebPage | str], None]
"""Receives the load generator's progress, or a sentence about an earlier stage."""

_PLAIN_EVERY_SECONDS = 10.0
_DETAIL_AFTER_SECONDS = 2.0
"""A server needs a moment to start; print the reason only if it takes longer."""


@contextmanager
def show_progress(console: Console) -> Iterator[ProgressCallback]:
    """Yield a callback that shows progress as a live bar or as plain lines."""
    if not console.is_terminal:
        yield _PlainLines(console)
        return
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bars:
        yield _LiveBar(bars)


class _LiveBar:
    """One bar: the stage, how far it is, and the figures of the most recent second."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID = bars.add_task("starting", total=None, figures="")

    def __call__(self, event: ProgressReport | WebPage | str) -> None:
        if isinstance(event, WebPage):
            self._bars.console.print(event.sentence(), highlight=False)
            return
        if isinstance(event, str):
            self._bars.update(self._task, description=event, total=None, figures="")
            return
        known = event.stage in {"Idle", "WarmUp", "Measuring"}
        self._bars.update(
            self._task,
            description=_where(event),
            total=1.0 if known else None,
            completed=event.fraction,
            figures=_figures(event),
        )


class _PlainLines:
    """A line at each change of stage, and one every ten seconds in between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_where = ""
        self._next_at_seconds = 0.0

    def __call__(self, event: ProgressReport | WebPage | str) -> None:
        if isinstance(event, WebPage):
            self._say(event.sentence())
            return
        if isinstance(event, str):
            self._say(event)
            return
        where = _where(event)
        if where != self._last_where:
            self._last_where = where
            self._next_at_seconds = event.elapsed_seconds + _PLAIN_EVERY_SECONDS
            self._say(where)
        elif event.elapsed_seconds >= self._next_at_seconds:
            self._next_at_seconds += _PLAIN_EVERY_SECONDS
            self._say(f"{where}: {event.fraction:.0%}  {_figures(event)}".rstrip())

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _where(event: ProgressReport) -> str:
    stage = STAGE_PHRASES[event.stage]
    if event.detail and event.elapsed_seconds >= _DETAIL_AFTER_SECONDS:
        return f"{stage}: {event.detail}"
    if not event.scenario:
        return stage
    number = f"{event.scenario_index + 1}/{event.scenario_count}"
    repeats = event.repeat_count
    repeat = f", repeat {event.repeat}/{repeats}" if repeats > 1 else ""
    step = f"{repeat}, {event.step}" if event.step else repeat
    return f"{event.scenario} ({number}{step}): {stage}"


def _figures(event: ProgressReport) -> str:
    figures = []
    if event.qps is not None:
        figures.append(f"{significant(event.qps)} queries/s")
    if event.p99_nanoseconds is not None:
        p99 = event.p99_nanoseconds
        figures.append(f"p99 {time_unit([p99]).named(p99)}")
    if event.failed:
        figures.append(f"{event.failed:,} failed")
    return "  ".join(figures)
