"""Prepares the pages of nodes: figures next to those of equal nodes, and their drift."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inferometer_api.nodes.changes import FigureComparison, MeasuredFigure, is_beyond, undisturbed
from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure
from inferometer_api.nodes.headlines import (
    HEADLINES,
    gpu_words,
    headlines,
    machine_kind,
    shown_headlines,
)
from inferometer_results.explore.outliers import node_figures
from inferometer_results.nodes.wording import figure_cells, setting_words, worded
from inferometer_results.quantity import DASH

LEAST_DRIFT = 0.03
"""A change below it is none, however narrow the intervals are."""
_LEAST_SHARE = 0.001
"""Steal and jitter below it are equal: they disturb nothing that is measured here."""
_FEWEST_EQUAL = 2

Histories = Mapping[str, Sequence[NodeCharacteristics]]
"""The measurements of each node, the earliest first."""


@dataclass(frozen=True, slots=True)
class JudgedChange:
    """The change of a figure since earlier measurements."""

    share: float | None
    """Of the newest earlier value; None without one."""
    has_drifted: bool
    """Whether it is beyond the intervals of all earlier values, and not small."""


@dataclass(frozen=True, slots=True)
class NodeFigureRow:
    """A figure of a node: its cells, how it compares with equal nodes, and how it changed."""

    cells: tuple[str, ...]
    """As `nodes.wording.figure_cells`."""
    measured: str
    """When its measurement began."""
    against_kind: str
    """Difference from the median of equal nodes."""
    is_outlier: bool
    drift: str
    """Change since the measurement before that has no cautions."""
    has_drifted: bool
    """Whether it is beyond the intervals of all those, and the change is not small."""


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One of the measurements of a node: its headlines, and the cautions of its figures."""

    measured: str
    values: tuple[str, ...]
    cautions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeListing:
    """A node in a list: its newest headlines."""

    node: str
    kind: str
    measured: str
    """When its last measurement began."""
    values: Mapping[str, str]
    earlier: Mapping[str, str]
    """When the measurement of a headline began, for those that the last one lacks."""
    cautions: tuple[str, ...]
    """Of the measurements that have these headlines, the newest first."""
    outliers: tuple[str, ...]
    """Headlines in which it stands apart from equal nodes."""
    drifted: tuple[str, ...]
    """Headlines that have changed."""


def histories(
    documents: Sequence[NodeCharacteristics], cluster_uids: Sequence[str] = ()
) -> Histories:
    """Return the measurements by node; `cluster_uids` has the cluster of each document.

    Nodes of several clusters that have the same name get that of their cluster in addition.
    """
    clusters = cluster_uids or [""] * len(documents)
    by_place: dict[tuple[str, str], list[NodeCharacteristics]] = {}
    for cluster, document in sorted(
        zip(clusters, documents, strict=True), key=lambda each: each[1].started_at
    ):
        by_place.setdefault((document.machine.hostname, cluster), []).append(document)
    namesakes = Counter(hostname for hostname, _ in by_place)
    return {
        hostname if namesakes[hostname] == 1 else f"{hostname} ({cluster or 'no cluster'})": each
        for (hostname, cluster), each in sorted(by_place.items())
    }


def of_kind(found: Histories, kind: str) -> Histories:
    """Return the nodes whose newest measurement is of this kind of machine."""
    return {node: each for node, each in found.items() if machine_kind(each[-1]) == kind}


def newest_headlines(history: Sequence[NodeCharacteristics]) -> dict[str, MeasuredFigure]:
    """Return the newest headlines of a node by name, each with the measurement that has it.

    A measurement may have only some figures: the others are those of earlier ones.
    """
    return _headlines(history[-1], _series(history))


def shown_cautions(history: Sequence[NodeCharacteristics]) -> list[tuple[str, str]]:
    """Return the cautions of the measurements that have the newest figures, the newest first.

    Each follows the time at which its measurement began.
    """
    return _cautions(each[-1] for each in _series(history).values())


def listed_nodes(found: Histories) -> list[NodeListing]:
    """Return every node with its newest headlines, judged within its kind."""
    names = shown_headlines(document for history in found.values() for document in history)
    return [
        _listed(node, each, of_kind(found, machine_kind(each[-1])), names)
        for node, each in found.items()
    ]


def figure_rows(node: str, found: Histories) -> list[NodeFigureRow]:
    """Return the newest of each figure of a node."""
    own = found[node]
    equal = of_kind(found, machine_kind(own[-1]))
    series = _series(own)
    return [_row(node, each, equal) for each in series.values()]


def drift_rows(history: Sequence[NodeCharacteristics]) -> list[MeasurementRow]:
    """Return the shown headlines of each measurement of a node, the newest first."""
    names = shown_headlines(history)
    return [
        MeasurementRow(
            document.started_at,
            tuple(
                worded(found[name], found[name].value) if name in found else DASH for name in names
            ),
            tuple(document.cautions),
        )
        for document in reversed(history)
        for found in (headlines(document),)
    ]


def changed_figures(changes: Iterable[FigureComparison]) -> list[str]:
    """Return a sentence for each figure that has changed, with its newest earlier value."""
    return [
        f"{' '.join(filter(None, _key(each.now)))} is {worded(each.now, each.now.value)}; on "
        f"{each.day} it was {worded(each.before, each.before.value)} "
        f"({_percent(each.share)})."
        for each in changes
    ]


def _listed(
    node: str, history: Sequence[NodeCharacteristics], equal: Histories, names: Iterable[str]
) -> NodeListing:
    series = _series(history)
    newest = _headlines(history[-1], series)
    rows = {name: _row(node, series[_key(each.figure)], equal) for name, each in newest.items()}
    return NodeListing(
        node,
        machine_kind(history[-1]),
        history[-1].started_at,
        {
            name: worded(each.figure, each.figure.value) if (each := newest.get(name)) else DASH
            for name in names
        },
        {
            name: each.document.started_at
            for name, each in newest.items()
            if each.document is not history[-1]
        },
        tuple(dict.fromkeys(text for _, text in _cautions(newest.values()))),
        tuple(HEADLINES[name] for name, row in rows.items() if row.is_outlier),
        tuple(f"{HEADLINES[name]} {row.drift}" for name, row in rows.items() if row.has_drifted),
    )


def _headlines(
    last: NodeCharacteristics, series: Mapping[tuple[str, str], Sequence[MeasuredFigure]]
) -> dict[str, MeasuredFigure]:
    """Return the headlines among the newest figures of a node whose last measurement this is."""
    figures = [each[-1].figure for each in series.values()]
    found = headlines(last.model_copy(update={"figures": figures}))
    return {name: series[_key(each)][-1] for name, each in found.items()}


def _cautions(figures: Iterable[MeasuredFigure]) -> list[tuple[str, str]]:
    """Return times and cautions of the measurements of figures, the newest first."""
    measurements = {each.document.id: each.document for each in figures}.values()
    newest_first = sorted(measurements, key=lambda each: each.started_at, reverse=True)
    return [(each.started_at, text) for each in newest_first for text in each.cautions]


def _series(
    history: Sequence[NodeCharacteristics],
) -> dict[tuple[str, str], list[MeasuredFigure]]:
    """Return each figure's values, the earliest first, as long as the node is of its kind.

    Figures of the last measurement come first, so that ties between figures are theirs.
    """
    kind = machine_kind(history[-1])
    found: dict[tuple[str, str], list[MeasuredFigure]] = {}
    for document in reversed(history):
        if machine_kind(document) == kind:
            for figure in document.figures:
                found.setdefault(_key(figure), []).insert(0, MeasuredFigure(figure, document))
    return found


def _row(node: str, own_series: Sequence[MeasuredFigure], equal: Histories) -> NodeFigureRow:
    """Return the last figure of a series, next to the one before and to those of equal nodes."""
    *earlier, newest = own_series
    figure = newest.figure
    change = judge_change(earlier, figure)
    series = {
        name: _series(history).get(_key(figure))
        for name, history in equal.items()
        if "gpu" not in figure.setting or _gpus(history) == _gpus(equal[node])
    }
    values = {name: [compared_value(each[-1].figure)] for name, each in series.items() if each}
    judged = {each.node: each for each in node_figures(values)}
    own = judged.get(node)
    return NodeFigureRow(
        figure_cells(figure),
        newest.document.started_at,
        DASH if own is None or len(values) < _FEWEST_EQUAL else _percent(own.ratio - 1),
        own is not None and own.is_outlier,
        DASH if change.share is None else _percent(change.share),
        change.has_drifted,
    )


def _gpus(history: Sequence[NodeCharacteristics]) -> str:
    """Return the GPUs of a node, as last measured: figures of other GPUs are not compared."""
    return next((words for each in reversed(history) if (words := gpu_words(each))), "")


def judge_change(earlier: Sequence[MeasuredFigure], figure: NodeFigure) -> JudgedChange:
    """Return how a figure has changed since earlier measurements, those without cautions."""
    known = [each.figure for each in undisturbed(earlier)]
    before = compared_value(known[-1]) if known else 0.0
    if not before:
        return JudgedChange(None, has_drifted=False)
    share = compared_value(figure) / before - 1
    return JudgedChange(share, has_drifted=abs(share) > LEAST_DRIFT and is_beyond(figure, known))


def compared_value(figure: NodeFigure) -> float:
    """Return the value by which a figure is compared; small shares are equal."""
    return max(figure.value, _LEAST_SHARE) if figure.unit == "share" else figure.value


def _key(figure: NodeFigure) -> tuple[str, str]:
    return figure.name, setting_words(figure.setting)


def _percent(change: float) -> str:
    return f"{100 * change:+.1f} %"
