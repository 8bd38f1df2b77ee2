"""Charts of a node's headline figures over time, next to those of equal nodes."""

from collections.abc import Iterator, Sequence

import numpy as np

from inferometer_api.nodes.changes import MeasuredFigure
from inferometer_api.nodes.characteristics import NodeFigure
from inferometer_api.nodes.headlines import HEADLINES, headlines, machine_kind
from inferometer_results.explore.charts import (
    points_apart,
    start_seconds,
    texts_apart,
    time_axis,
)
from inferometer_results.explore.outliers import node_figures
from inferometer_results.nodes.view import (
    Histories,
    compared_value,
    judge_change,
    newest_headlines,
    of_kind,
)
from inferometer_results.nodes.wording import worded
from inferometer_results.quantity import time_unit
from inferometer_results.report.axis import linear_axis
from inferometer_results.report.chart import Chart, Line, Mark, ReferenceLine, Tone, Whiskers

_FEWEST = 2
_OWN, _CHANGED = 1, 2
"""Colours."""
_TERA, _GIGA, _PERCENT = 1e12, 1e9, 0.01


def drift_charts(node: str, found: Histories) -> Iterator[Chart]:
    """Yield a chart for each headline that a node has from several measurements."""
    own = [(each, headlines(each)) for each in found[node]]
    equal = of_kind(found, machine_kind(found[node][-1]))
    newest = {name: newest_headlines(history) for name, history in equal.items()}
    for name in HEADLINES:
        moments = [
            MeasuredFigure(figures[name], document) for document, figures in own if name in figures
        ]
        if len(moments) >= _FEWEST:
            values = {
                other: compared_value(figures[name].figure)
                for other, figures in newest.items()
                if name in figures
            }
            yield _chart(node, name, moments, values)


def _chart(
    node: str, name: str, moments: Sequence[MeasuredFigure], equal: dict[str, float]
) -> Chart:
    judged = {each.node: each for each in node_figures({at: [one] for at, one in equal.items()})}
    own = judged.get(node)
    is_outlier = own is not None and own.is_outlier
    middle = None if own is None or len(judged) < _FEWEST else own.median / own.ratio
    figures = [each.figure for each in moments]
    bounds = [each for figure in figures for each in (figure.low, figure.high) if each is not None]
    shown = [*(figure.value for figure in figures), *bounds, *([] if middle is None else [middle])]
    divisor, unit = _scale(figures[-1], shown)
    marks = _marks(moments, divisor)
    if middle is not None:
        tone: Tone = "bound" if is_outlier else "guide"
        marks.append(ReferenceLine("y", middle / divisor, "equal nodes", tone))
    return Chart(
        key=f"drift-{name}",
        title=f"{_capitalised(HEADLINES[name])} over time{', an outlier' * is_outlier}",
        caption="Strokes are 95 % intervals. A point of the second colour is beyond all "
        "measurements before it that have no cautions. The line across is the median of equal "
        "nodes, by their newest measurements; it is red if this node is an outlier.",
        summary=f"{len(moments)} measurements, the newest "
        f"{worded(figures[-1], figures[-1].value)}"
        f"{'' if middle is None else f'; equal nodes have {worded(figures[-1], middle)}'}.",
        x=time_axis(
            "Measured (UTC)", [start_seconds(each.document.started_at) for each in moments]
        ),
        y=linear_axis(
            f"{_capitalised(HEADLINES[name])} ({unit})", [each / divisor for each in shown]
        ),
        marks=marks,
    )


def _marks(moments: Sequence[MeasuredFigure], divisor: float) -> list[Mark]:
    figures = [each.figure for each in moments]
    times = [each.document.started_at for each in moments]
    x = [start_seconds(at) for at in times]
    y = [figure.value / divisor for figure in figures]
    words = [
        f"{at[:16].replace('T', ' ')}: {worded(each, each.value)}"
        for at, each in zip(times, figures, strict=True)
    ]
    marks: list[Mark] = [Line(np.array(x), np.array(y), _OWN, values=tuple(words), dots=True)]
    bounded = [
        (moment, figure.low / divisor, figure.high / divisor)
        for moment, figure in zip(x, figures, strict=True)
        if figure.low is not None and figure.high is not None
    ]
    if bounded:
        at, low, high = (np.array(each) for each in zip(*bounded, strict=True))
        marks.append(Whiskers(at, low, high, _OWN))
    changed = [
        index
        for index, figure in enumerate(figures)
        if judge_change(moments[:index], figure).has_drifted
    ]
    if changed:
        marks.append(
            Line(
                points_apart([x[index] for index in changed]),
                points_apart([y[index] for index in changed]),
                _CHANGED,
                values=texts_apart([f"{words[index]}, changed" for index in changed]),
                dots=True,
            )
        )
    return marks


def _scale(figure: NodeFigure, values: Sequence[float]) -> tuple[float, str]:
    """Return what values are divided by, and the unit that they then have."""
    match figure.unit:
        case "bytes/s":
            return _GIGA, "GB/s"
        case "flop/s":
            return (_TERA, "TFLOP/s") if max(values) >= _TERA else (_GIGA, "GFLOP/s")
        case "ns":
            unit = time_unit(values)
            return 1 / unit.of(1.0), unit.name
        case _:
            return _PERCENT, "%"


def _capitalised(words: str) -> str:
    return words[:1].upper() + words[1:]
