"""The trend of a figure in a terminal and in a log: a drawn line, its change points, sentences."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from inferometer_api.wording import counted
from inferometer_cli.text_table import Row, print_rows, print_sentences
from inferometer_results.history.change_points import (
    FEWEST_BEFORE,
    MOST_AFTER,
    PROMISED_CHANGE,
)
from inferometer_results.history.series import Series, SeriesName, figure_kind
from inferometer_results.history.trend import Change, Trend
from inferometer_results.quantity import Unit, energy_unit, percent, significant, time_unit

_HEIGHT = 8
_WIDEST = 100
_DOT, _MARK = "\N{BULLET}", "\N{BOX DRAWINGS LIGHT VERTICAL}"
_HEADER = ("STATE", "SINCE", "STARTED", "CHANGE", "BOUNDS", "SEEN AFTER", "TAGS AND LABELS")
SHOWN_ID = 12


def print_trend(trend: Trend, console: Console) -> None:
    """Print one series: its name, its line, its change points, and what cannot be judged."""
    series = trend.series
    print_sentences([Text(_title(series))], console)
    width = min(_WIDEST, console.width) if console.is_terminal else _WIDEST
    for line in drawn(series, [each.point.at for each in trend.changes], width):
        console.out(line, highlight=False)
    if trend.changes:
        print_rows(_HEADER, [_row(each) for each in trend.changes], console)
    print_sentences(map(Text, _sentences(trend)), console)


def series_options(name: SeriesName) -> str:
    """Return the options that choose the scenario and step of a series, quoted for a shell."""
    step = ["--step", name.step] if name.step else []
    return shlex.join(["--scenario", name.scenario, *step])


def drawn(series: Series, marks: Sequence[int], width: int) -> Iterator[str]:
    """Yield the lines of a plot: a dot for each run, a vertical line at each change point."""
    values = series.values
    unit = _unit(series)
    low, high = min(values), max(values)
    labels = [f"{significant(unit.of(each), 4)} {unit.name}".strip() for each in (high, low)]
    margin = max(map(len, labels))
    columns = max(1, min(2 * len(values), width - margin - 2))
    height = _HEIGHT if high > low else 1
    grid = [[" "] * columns for _ in range(height)]
    for at in marks:
        for row in grid:
            row[at * columns // len(values)] = _MARK
    for at, value in enumerate(values):
        part = (value - low) / (high - low) if high > low else 0.0
        grid[round((1 - part) * (height - 1))][at * columns // len(values)] = _DOT
    for number, row in enumerate(grid):
        label = labels[0] if number == 0 else labels[1] if number == height - 1 else ""
        yield f"{label.rjust(margin)} {_MARK}{''.join(row)}".rstrip()
    first, last = (each.started_at[:10] for each in (series.points[0], series.points[-1]))
    room = columns - len(last)
    yield f"{' ' * margin}  {first.ljust(room)}{last if room > len(first) else ''}".rstrip()


def _title(series: Series) -> str:
    name = series.name
    what = ", ".join(filter(None, (name.run, name.scenario, name.step, series.figure)))
    where = ", ".join(filter(None, (name.node, name.runtime, name.device, name.protocol)))
    stored = ", stored by users" if name.source else ""
    return f"{what} on {where}{stored}: {counted(len(series.points), 'run')}"


def _row(change: Change) -> Row:
    point, after = change.point, change.after
    runs = point.seen_at - point.at + 1
    bounds = f"{_signed(point.low)} to {_signed(point.high)}"
    marks = [*after.tags, *(f"{name}={value}" for name, value in after.labels)]
    return Row(
        change.state,
        after.result_id[:SHOWN_ID],
        (
            after.started_at[:19].replace("T", " "),
            f"{_signed(point.ratio)} {'better' if change.is_better else 'worse'}",
            bounds,
            counted(runs, "run"),
            " ".join(marks),
        ),
    )


def _signed(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _sentences(trend: Trend) -> Iterator[str]:
    if trend.split_after is not None:
        yield (
            f"The series begins after result {trend.split_after.result_id[:SHOWN_ID]}, whose "
            f"figures are not comparable: {'; '.join(_differences(trend))}."
        )
    for change in trend.changes:
        if change.state == "candidate":
            yield (
                f"Candidate: confirm it by interleaved runs on {trend.series.name.node}: "
                f"inferometer results confirm {change.after.result_id[:SHOWN_ID]} "
                f"--figure {trend.series.figure} {series_options(trend.series.name)}"
            )
        elif change.finding is not None:
            yield _finding(change)
    if trend.unreadable:
        findings = "1 finding" if trend.unreadable == 1 else f"{trend.unreadable} findings"
        yield (
            f"{findings} about changes of these results cannot be read. Repeat `inferometer "
            "results confirm`."
        )
    yield _judgement(trend)


def _differences(trend: Trend) -> Iterator[str]:
    for name, (one, other) in trend.split.items():
        yield f"{name} {one or 'unknown'} -> {other or 'unknown'}"


def _finding(change: Change) -> str:
    finding = change.finding
    if finding is None:
        return ""
    bounds = f"{_signed(finding.ratio)} ({_signed(finding.low)} to {_signed(finding.high)})"
    word = "show the change as well" if change.state == "accepted" else "show no such change"
    id_ = change.after.result_id[:SHOWN_ID]
    return f"{id_}: {finding.rounds} interleaved rounds {word}: {bounds}."


def _judgement(trend: Trend) -> str:
    found = trend.analysis
    since = " since the last change" if trend.changes else ""
    if found.detectable is None or found.variation is None:
        return (
            f"Cannot judge: there are {found.runs} comparable runs{since}, and {FEWEST_BEFORE} "
            "are needed."
        )
    varies = f"The figure varies by {percent(found.variation)} from run to run{since}."
    within = f"within {MOST_AFTER} runs with a probability of 0.8"
    if found.can_judge:
        return f"{varies} A change of {percent(found.detectable)} is found {within}."
    return (
        f"Cannot judge a change of {100 * PROMISED_CHANGE:g} %. {varies} The smallest change that "
        f"is found {within} is {percent(found.detectable)}."
    )


def _unit(series: Series) -> Unit:
    match figure_kind(series.figure):
        case "time":
            return time_unit(series.values)
        case "energy":
            return energy_unit(series.values)
        case _:
            return Unit("/s", 1)
