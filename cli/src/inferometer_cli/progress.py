"""Progress of a run: a live bar on a terminal, plain lines elsewhere, or objects of JSON."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column

from inferometer_api.plan.reports import STAGE_PHRASES, ProgressReport
from inferometer_api.wording import counted
from inferometer_cli.terminal import ProgressFormat, print_event
from inferometer_cli.time_left import RemainingTime
from inferometer_results.quantity import long_duration, significant, time_unit


@dataclass(frozen=True, slots=True)
class WebPage:
    """The address of Locust's web page, which shows what a fleet measures."""

    url: str

    def sentence(self) -> str:
        """Return the line to print."""
        return f"Locust's web page shows the fleet: {self.url}"


@dataclass(frozen=True, slots=True)
class Warn:
    """A warning that stays on the screen."""

    text: str

    def sentence(self) -> str:
        """Return the line to print."""
        return f"warning: {self.text}"


ProgressCallback = Callable[[ProgressReport | WebPage | Warn | str], None]
"""Receives the load generator's progress, or a sentence about an earlier stage."""

_BAR_WIDTH = 12
_MEASURED_STAGES = frozenset({"Idle", "WarmUp", "Measuring"})
"""Stages whose fraction says how far they are; a wait has only a longest time."""
_PLAIN_EVERY_SECONDS = 10.0
_DETAIL_AFTER_SECONDS = 2.0
"""A server needs a moment to start; print the reason only if it takes longer."""


@contextmanager
def show_progress(
    console: Console, remaining: RemainingTime, wanted: ProgressFormat = "auto"
) -> Iterator[ProgressCallback]:
    """Yield a callback that shows progress as a live bar, as plain lines or as JSON."""
    if wanted == "json":
        yield _JsonLines(remaining)
        return
    # A dumb terminal cannot overwrite a line.
    if wanted == "plain" or not console.is_terminal or console.is_dumb_terminal:
        yield _PlainLines(console, remaining)
        return
    bars = Bars(
        TextColumn("{task.description}", table_column=Column(overflow="fold")),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[facts]}"),
        console=console,
        transient=True,
    )
    with bars:
        yield _LiveBar(bars, remaining)


class _LiveBar:
    """One bar: the stage, how far it is, the figures of the last second, and the time left."""

    def __init__(self, bars: Bars, remaining: RemainingTime) -> None:
        self._bars = bars
        self._remaining = remaining
        self._task: TaskID = bars.add_task("starting", total=None, facts="")

    def __call__(self, event: ProgressReport | WebPage | Warn | str) -> None:
        if isinstance(event, WebPage | Warn):
            self._bars.console.print(event.sentence(), highlight=False)
            return
        if isinstance(event, str):
            self._bars.update(self._task, description=event, total=None, facts="")
            return
        known = event.stage in _MEASURED_STAGES
        where = _where(event)
        facts = (_time_left(event, self._remaining), _figures(event))
        self._bars.update(
            self._task,
            description=where,
            total=1.0 if known else None,
            completed=event.fraction,
            facts=_fitting(facts, self._bars.console.width - len(where) - _BAR_WIDTH - 2),
        )


class _PlainLines:
    """A line at each change of stage, and one every ten seconds in between."""

    def __init__(self, console: Console, remaining: RemainingTime) -> None:
        self._console = console
        self._remaining = remaining
        self._last_where = ""
        self._next_at_seconds = 0.0

    def __call__(self, event: ProgressReport | WebPage | Warn | str) -> None:
        if isinstance(event, WebPage | Warn):
            self._say(event.sentence())
            return
        if isinstance(event, str):
            self._say(event)
            return
        where, left = _where(event), _time_left(event, self._remaining)
        if where != self._last_where:
            self._last_where = where
            self._next_at_seconds = event.elapsed_seconds + _PLAIN_EVERY_SECONDS
            self._say(f"{where}, {left}" if left else where)
        elif event.elapsed_seconds >= self._next_at_seconds:
            self._next_at_seconds += _PLAIN_EVERY_SECONDS
            if event.stage not in _MEASURED_STAGES:
                self._say(f"{where}, {left}" if left else where)
                return
            facts = (f"{where}: {event.fraction:.0%}", _figures(event), left)
            self._say("  ".join(fact for fact in facts if fact))

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _JsonLines:
    """An object for each event."""

    def __init__(self, remaining: RemainingTime) -> None:
        self._remaining = remaining

    def __call__(self, event: ProgressReport | WebPage | Warn | str) -> None:
        if isinstance(event, WebPage):
            print_event("fleetWeb", url=event.url)
            return
        if isinstance(event, Warn):
            print_event("warning", message=event.text)
            return
        if isinstance(event, str):
            print_event("stage", message=event)
            return
        left = self._remaining.at(event, time.monotonic())
        facts = event.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"report", "server_pods"}
        )
        if left is not None:
            facts |= {"secondsLeft": round(left.seconds, 1), "isBound": left.is_bound}
        print_event("progress", **facts)


def _fitting(facts: Iterable[str], width: int) -> str:
    """Return the facts that fit the rest of the line whole, so that no figure is cut."""
    line = ""
    for fact in facts:
        longer = f"{line}  {fact}".strip()
        line = longer if len(longer) <= width else line
    return line


def _time_left(event: ProgressReport, remaining: RemainingTime) -> str:
    if event.stage == "WaitingForServer" and event.elapsed_seconds >= _DETAIL_AFTER_SECONDS:
        # Not "gives up in": an answer that cannot heal ends the wait much earlier.
        return f"waits for up to {long_duration(remaining.until_given_up(event))}"
    left = remaining.at(event, time.monotonic())
    return "" if left is None else str(left)


def _where(event: ProgressReport) -> str:
    stage = STAGE_PHRASES[event.stage] if event.sample_count is None else "sending samples"
    if event.detail and event.elapsed_seconds >= _DETAIL_AFTER_SECONDS:
        return f"{stage}: {event.detail}"
    if not event.scenario:
        if event.stage == "WaitingForRestart":
            return f"{stage} (repeat {event.repeat}/{event.repeat_count})"
        return stage
    number = f"{event.scenario_index + 1}/{event.scenario_count}"
    repeats = event.repeat_count
    repeat = f", repeat {event.repeat}/{repeats}" if repeats > 1 else ""
    step = f"{repeat}, {event.step}" if event.step else repeat
    return f"{event.scenario} ({number}{step}): {stage}"


def _figures(event: ProgressReport) -> str:
    figures = []
    if event.sample_count is not None:
        figures.append(f"{event.queries:,} of {counted(event.sample_count, 'sample')}")
    if event.qps is not None:
        figures.append(f"{significant(event.qps)} queries/s")
    if event.p99_nanoseconds is not None:
        p99 = event.p99_nanoseconds
        figures.append(f"p99 {time_unit([p99]).named(p99)}")
    if event.failed:
        figures.append(f"{event.failed:,} failed")
    return "  ".join(figures)
