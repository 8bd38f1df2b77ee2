"""The views of many results: models, one model, a trend, and nodes; for pages and for the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import urlencode

from markupsafe import Markup
from sqlalchemy import or_

from inferometer_api.scenarios.table import SEARCHES, is_evaluation
from inferometer_results.explore.charts import (
    front_chart,
    nodes_chart,
    numbered_changes,
    scaling_chart,
    series_of,
    trend_chart,
)
from inferometer_results.explore.cold_starts import ColdStartFigure, cold_start_figures
from inferometer_results.explore.eligibility import why_not_ranked
from inferometer_results.explore.figure import FIGURES, ShownFigure
from inferometer_results.explore.model import ModelView, could_rank, model_view
from inferometer_results.explore.outliers import NodeMedian, compared_nodes, node_figures
from inferometer_results.explore.prices import PriceList
from inferometer_results.explore.trend import TimeSeries, trend
from inferometer_results.history.trend import (
    ChangeFinding,
    State,
    known_findings,
    unreadable_findings,
)
from inferometer_results.report.chart import Chart
from inferometer_results.report.svg import draw
from inferometer_results.service.answers import RequestError, read_stored
from inferometer_results.store.index_rows import JournalRow
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.summaries import (
    MOST_LISTED,
    MOST_MEASUREMENTS,
    conditions_of,
    differing_fields,
    labels_of,
    measurements,
)
from inferometer_results.store.tables import MEASUREMENT, RESULT

_MOST_NAMED = 20
_COUNTED = or_(MEASUREMENT.c.kind.not_in(SEARCHES), MEASUREMENT.c.headline)
"""Of the probes of a search, which are different each time, the one by which it is judged."""


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """A chart as it stands in a page."""

    title: str
    caption: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several views to choose from."""

    text: str
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class View:
    """What all views of this module have: their address, as a page and as data."""

    path: str
    parameters: Mapping[str, str]
    shown_alone: int | None = field(default=None, kw_only=True)
    """So many rows are shown: the newest measurements, or the first of a list. None: all are."""

    def url(self, *, api: bool = False, **changed: str) -> str:
        """Return the address of the view with other parameters; empty ones are left out."""
        given = {name: each for name, each in ({**self.parameters, **changed}).items() if each}
        query = urlencode(given)
        path = f"/api/v1{self.path}" if api else self.path
        return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True)
class ModelPage(View):
    """All measurements of one scenario of a model."""

    scenarios: tuple[Choice, ...]
    view: ModelView
    colours: Mapping[str, int]
    charts: tuple[DrawnChart, ...]
    cold_starts: Sequence[ColdStartFigure | None]
    """That of each group, None if there is none."""


@dataclass(frozen=True, slots=True)
class TrendPage(View):
    """A figure of a step over time, for a specification on a node."""

    names: tuple[str, str]
    """Of the newest run and its model."""
    steps: tuple[Choice, ...]
    figures: tuple[Choice, ...]
    figure: ShownFigure
    found: TimeSeries
    changes: tuple[tuple[int, str, str], ...]
    charts: tuple[DrawnChart, ...]
    unreadable: int
    """Findings about its results that cannot be read, and do not count."""


@dataclass(frozen=True, slots=True)
class NodesPage(View):
    """A figure of a step of one specification on all nodes."""

    names: tuple[str, str]
    steps: tuple[Choice, ...]
    figures: tuple[Choice, ...]
    figure: ShownFigure
    nodes: tuple[NodeMedian, ...]
    left_out: int
    """Measurements that do not count."""
    charts: tuple[DrawnChart, ...]


class SummaryQuery(Protocol):
    """A query for the rows of a list, of which it returns at most so many."""

    def __call__(self, store: Store, search: Search, most: int) -> list[dict[str, Any]]:
        """Return the rows."""


def find_rows(
    store: Store, query: SummaryQuery, wanted: Search
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the rows of a list, and how many are shown if there are more."""
    rows = query(store, wanted, MOST_LISTED + 1)
    return rows[:MOST_LISTED], MOST_LISTED if len(rows) > MOST_LISTED else None


def show_model(
    store: Store,
    prices: PriceList | None,
    name: str,
    scenario: str,
    where: str,
    *,
    mixed: bool,
) -> ModelPage:
    """Return the view of a model. Raises SearchError and RequestError."""
    everything = Search(where, with_retracted=True)
    rows, is_cut = measurements(store, everything, RESULT.c.model == name, _COUNTED)
    if not rows:
        raise RequestError(f"No result of the model {name!r} matches.")
    parameters = {"model": name, "scenario": scenario, "where": where}
    parameters["mixed"] = "true" if mixed else ""
    here = View("/model", parameters)
    # An evaluation has no latency, and a rate that says little: another scenario is shown first.
    evaluations = {row["scenario"] for row in rows if is_evaluation(row["kind"])}
    names = sorted(_by_frequency([row["scenario"] for row in rows]), key=evaluations.__contains__)
    chosen = _chosen("scenario", scenario, names)
    shown = [row for row in rows if row["scenario"] == chosen]
    keys = {row["key"] for row in could_rank(shown)}
    differing = differing_fields(keys, conditions_of(store, keys)) if len(keys) > 1 else {}
    labels = labels_of(store, {row["id"] for row in shown}) if prices else {}
    view = model_view(shown, labels, differing, prices, mixed=mixed)
    colours = series_of([each.stack for each in view.groups])
    return ModelPage(
        here.path,
        parameters | {"scenario": chosen},
        tuple(Choice(each, here.url(scenario=each), each == chosen) for each in names),
        view,
        colours,
        drawn_charts(
            front_chart(view.groups, colours, is_ranked=view.is_ranked),
            scaling_chart(view.scalings, colours),
        ),
        cold_start_figures(view.groups, rows, lambda id_: read_stored(store, id_)[1].document),
        shown_alone=MOST_MEASUREMENTS if is_cut else None,
    )


def show_trend(
    store: Store,
    spec: str,
    node: str,
    step: str,
    figure: str,
    where: str,
) -> TrendPage:
    """Return the view of a trend; `step` is "scenario" or "scenario, step".

    Raises SearchError and RequestError.
    """
    rows, is_cut = measurements(
        store,
        Search(where, with_retracted=True),
        RESULT.c.spec_digest == spec,
        RESULT.c.node == node,
        _COUNTED,
    )
    parameters = {"spec": spec, "node": node, "step": step, "figure": figure, "where": where}
    if not rows:
        raise RequestError("No result of this specification on this node matches.")
    here = View("/trend", parameters)
    steps = _by_frequency([step_name(row) for row in rows])
    chosen = _chosen("step", step, steps)
    shown = [row for row in rows if step_name(row) == chosen]
    journal = store.journal(list(dict.fromkeys(row["id"] for row in shown)))
    found = trend(
        shown,
        FIGURES[figure],
        labels_of(store, {row["id"] for row in shown}),
        conditions_of(store, {row["key"] for row in shown}),
        _judged(journal, shown, figure),
    )
    return TrendPage(
        here.path,
        parameters | {"step": chosen},
        (rows[0]["name"], rows[0]["model"]),
        tuple(Choice(each, here.url(step=each), each == chosen) for each in steps),
        _figure_choices(here, figure),
        FIGURES[figure],
        found,
        tuple(numbered_changes(found)),
        drawn_charts(trend_chart(found, FIGURES[figure])),
        unreadable_findings(journal).total(),
        shown_alone=MOST_MEASUREMENTS if is_cut else None,
    )


def _judged(
    journal: Sequence[tuple[str, JournalRow]], rows: Sequence[Mapping[str, Any]], figure: str
) -> dict[str, tuple[State, ChangeFinding]]:
    """Return what interleaved runs show about changes that begin with one of these results."""
    found = known_findings(journal)
    step = "" if rows[0]["kind"] in SEARCHES else rows[0]["step"]
    wanted = (rows[0]["scenario"], step, figure)
    return {id_: judged for (id_, *of), judged in found.items() if tuple(of) == wanted}


def show_nodes(store: Store, spec: str, step: str, figure: str, where: str) -> NodesPage:
    """Return a figure of a specification on all nodes. Raises SearchError and RequestError."""
    rows, is_cut = measurements(store, Search(where), RESULT.c.spec_digest == spec, _COUNTED)
    if not rows:
        raise RequestError("No result of this specification matches.")
    parameters = {"spec": spec, "step": step, "figure": figure, "where": where}
    here = View("/node-figures", parameters)
    steps = _by_frequency([step_name(row) for row in rows])
    chosen = _chosen("step", step, steps)
    shown = [row for row in rows if step_name(row) == chosen]
    of = FIGURES[figure].of
    counted = [row for row in shown if of(row) is not None and not why_not_ranked(row)]
    compared = compared_nodes(counted, conditions_of(store, {row["key"] for row in counted}))
    values = {
        node: [value for row in some if (value := of(row)) is not None]
        for node, some in compared.rows.items()
    }
    found = [
        replace(
            each,
            count=len({row["id"] for row in compared.rows[each.node]}),
            differing=compared.differing[each.node],
        )
        for each in node_figures(values, compared.apart)
    ]
    return NodesPage(
        here.path,
        parameters | {"step": chosen},
        (rows[0]["name"], rows[0]["model"]),
        tuple(Choice(each, here.url(step=each), each == chosen) for each in steps),
        _figure_choices(here, figure),
        FIGURES[figure],
        tuple(found),
        len(shown) - sum(map(len, values.values())),
        drawn_charts(nodes_chart(found, FIGURES[figure])),
        shown_alone=MOST_MEASUREMENTS if is_cut else None,
    )


def step_name(row: Mapping[str, Any]) -> str:
    """Return the display name of a step: "throughput, batch 8"; a search has no steps."""
    step = "" if row["kind"] in SEARCHES else row["step"]
    return ", ".join(filter(None, (row["scenario"], step)))


def trend_url(row: Mapping[str, Any], figure: str = "p99") -> str:
    """Return the address of the trend that a measurement belongs to."""
    parameters = {"spec": row["spec_digest"], "node": row["node"], "step": step_name(row)}
    return View("/trend", parameters | {"figure": figure}).url()


def _figure_choices(here: View, figure: str) -> tuple[Choice, ...]:
    return tuple(Choice(each, here.url(figure=each), each == figure) for each in FIGURES)


def _chosen(kind: str, name: str, names: Sequence[str]) -> str:
    """Return a name, or the first one if it is empty. Raises RequestError if it is unknown."""
    if name and name not in names:
        some = "; ".join(names[:_MOST_NAMED])
        more = f"; and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        raise RequestError(
            f"No result that matches has the {kind} {name!r}. Choose one of: {some}{more}."
        )
    return name or names[0]


def _by_frequency(names: Sequence[str]) -> list[str]:
    """Return distinct names, the most frequent first."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))


def drawn_charts(*charts: Chart | None) -> tuple[DrawnChart, ...]:
    """Return the charts that there are, drawn for a page."""
    return tuple(
        DrawnChart(each.title, each.caption, draw(each, "view"))
        for each in charts
        if each is not None
    )
