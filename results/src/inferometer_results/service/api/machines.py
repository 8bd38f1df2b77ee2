"""The routes of the API for the views of machines."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel

from inferometer_analysis.samples import Interval
from inferometer_api.layers.advice import AdviceGain
from inferometer_api.nodes.changes import MeasuredFigure
from inferometer_api.nodes.headlines import HEADLINES, machine_kind
from inferometer_results.explore.prices import PriceList
from inferometer_results.layers.bound_report import operator_counts, operator_words
from inferometer_results.layers.granularities import GranularityFigures
from inferometer_results.layers.machine_views import (
    BoundRow,
    DatedAdvice,
    LayerMachine,
    PredictedLatency,
    TimedOperator,
)
from inferometer_results.nodes.view import newest_headlines, of_kind
from inferometer_results.service.answers import TableFormat, csv_answer, json_answer
from inferometer_results.service.api import machine_schema
from inferometer_results.service.views.machines import (
    check_node,
    node_histories,
    show_advice,
    show_bounds,
    show_bricks,
    show_granularities,
    show_layers,
)
from inferometer_results.store.measured_energy import EnergyKey, measured_energy
from inferometer_results.store.store import Store

NameQuery = Annotated[str, Query(max_length=1024)]


def machine_routes(
    store: Store, prices: PriceList | None
) -> Iterator[tuple[str, Any, Callable[..., Response]]]:
    """Yield path, model of the answer, and endpoint of each route."""
    yield "/layers", list[machine_schema.TimedOperatorRow], _layers(store)
    yield "/bounds", list[machine_schema.BoundModelRow], _bounds(store)
    yield "/advice", list[machine_schema.AdviceRow], _advice(store)
    yield "/bricks", list[machine_schema.BrickRow], _bricks(store, prices)
    yield "/granularities", list[machine_schema.GranularityRow], _granularities(store)
    yield "/measured-nodes", list[machine_schema.MeasuredNodeRow], _nodes(store)
    yield "/measured-node", list[machine_schema.MeasuredFigureRow], _node(store)


def _layers(store: Store) -> Callable[..., Response]:
    def list_layers(
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List the operators whose layers were timed on each machine."""
        rows = [row for each in show_layers(store) for row in _layer_rows(each)]
        return _answer(rows, format, "layers", machine_schema.TimedOperatorRow)

    return list_layers


def _bounds(store: Store) -> Callable[..., Response]:
    def list_bounds(
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List the bounds of each model on each machine in each precision."""
        return _answer(
            list(map(_bound_row, show_bounds(store))),
            format,
            "bounds",
            machine_schema.BoundModelRow,
        )

    return list_bounds


def _advice(store: Store) -> Callable[..., Response]:
    def list_advice(
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List the newest advice on each model on each machine, one piece in each row."""
        rows = [row for each in show_advice(store) for row in _advice_rows(each)]
        return _answer(rows, format, "advice", machine_schema.AdviceRow)

    return list_advice


def _bricks(store: Store, prices: PriceList | None) -> Callable[..., Response]:
    def list_bricks(
        model: NameQuery = "",
        machine: NameQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List the latencies that are predicted for one model or all, on one machine or all."""
        found = show_bricks(store, model, machine)
        measured = measured_energy(store)
        rows = [_brick_row(each, prices, measured) for each in found]
        return _answer(rows, format, "bricks", machine_schema.BrickRow)

    return list_bricks


def _granularities(store: Store) -> Callable[..., Response]:
    def list_granularities(
        model: NameQuery = "",
        machine: NameQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List how far predictions of the same models are off by the granularity of bricks."""
        rows = [_granularity_row(each) for each in show_granularities(store, model, machine)]
        return _answer(rows, format, "granularities", machine_schema.GranularityRow)

    return list_granularities


def _nodes(store: Store) -> Callable[..., Response]:
    def list_measured_nodes(
        kind: NameQuery = "",
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """List the newest headlines of each measured node, of one kind or of all."""
        found = node_histories(store)
        rows = [
            {
                "node": node,
                "kind": machine_kind(history[-1]),
                "headline": HEADLINES[name],
                **_figure_row(measured),
            }
            for node, history in (of_kind(found, kind) if kind else found).items()
            for name, measured in newest_headlines(history).items()
        ]
        return _answer(rows, format, "measured-nodes", machine_schema.MeasuredNodeRow)

    return list_measured_nodes


def _node(store: Store) -> Callable[..., Response]:
    def show_measured_node(
        name: NameQuery,
        format: TableFormat = "json",  # noqa: A002 - the name of the parameter
    ) -> Response:
        """Show all figures of every measurement of a node, the newest first."""
        found = node_histories(store)
        check_node(found, name)
        rows = [
            _figure_row(MeasuredFigure(figure, document))
            for document in reversed(found[name])
            for figure in document.figures
        ]
        return _answer(rows, format, "measured-node", machine_schema.MeasuredFigureRow)

    return show_measured_node


def _answer(rows: list[dict[str, Any]], form: str, name: str, row: type[BaseModel]) -> Response:
    return csv_answer(rows, name, row.model_fields) if form == "csv" else json_answer(rows)


def _layer_rows(machine: LayerMachine) -> Iterator[dict[str, Any]]:
    state = machine.state
    own = {
        "machine": state.name,
        "threads": state.threads,
        "engines": "; ".join(f"{name} {version}" for name, version in state.engines.items()),
        "bricks": len(machine.timings.bricks),
        "kernels": len(machine.timings.kernels),
        "memory_bytes_per_second": state.memory_bytes_per_second,
        "cache_bytes_per_second": state.cache_bytes_per_second,
        "reference_spread": machine.timings.reference_spread,
    }
    for each in machine.operators or [TimedOperator(None, 0, Interval(0.0))]:
        yield own | {
            "operator": each.name,
            "layers": each.layers,
            "nanoseconds": each.nanoseconds.value,
            "low_nanoseconds": each.nanoseconds.low,
            "high_nanoseconds": each.nanoseconds.high,
        }


def _bound_row(row: BoundRow) -> dict[str, Any]:
    report = row.report
    return {
        "model": report.model,
        "batch_size": row.batch_size,
        "machine": report.machine.name,
        "threads": report.machine.threads,
        "precision": report.precision,
        "bound_nanoseconds": report.bound.sequential_ns,
        "low_nanoseconds": report.bound.sequential.low,
        "high_nanoseconds": report.bound.sequential.high,
        "noise_floor": report.floor.words,
        "wrong": report.is_wrong,
        "critical_path_nanoseconds": report.bound.critical_path_ns,
        "roofline_nanoseconds": report.roofline_ns,
        "roofline_wrong": report.is_roofline_wrong,
        "layers_without_roofline": sum(report.without_roofline.values()),
        "operators_without_roofline": operator_words(report.without_roofline),
        "layers_without_kernel": len(report.bound.without_kernel),
        "operators_without_kernel": operator_words(operator_counts(report.bound.without_kernel)),
        "measured_nanoseconds": report.fastest.value if report.fastest else None,
        "coverage": report.bound.coverage,
        "faster": "; ".join(
            f"{name} {gain.value:.3f} ({gain.low:.3f} to {gain.high:.3f})"
            for name, gain in row.faster
        ),
    }


def _advice_rows(dated: DatedAdvice) -> Iterator[dict[str, Any]]:
    advice = dated.advice
    for each in advice.advice:
        yield {
            "received_at": dated.received_at,
            "model": advice.model,
            "batch_size": advice.batch_size,
            "machine": advice.machine,
            "device": advice.device,
            "threads": advice.threads,
            "engine": advice.engine,
            "precision": advice.precision,
            "nanoseconds": advice.nanoseconds,
            "served_nanoseconds": advice.served_nanoseconds,
            "question": each.question,
            "title": each.title,
            "sentence": each.sentence,
            **_gain_columns("predicted_gain", each.predicted_gain),
            "why_no_interval": each.why_no_interval,
            "predicted_served_gain": each.predicted_served_gain,
            "was_tried": advice.was_tried,
            **_gain_columns("achieved_gain", each.achieved_gain),
            "settings": "; ".join(each.settings),
            "why_not_applied": each.why_not_applied,
        }


def _gain_columns(name: str, gain: AdviceGain | None) -> dict[str, float | None]:
    return {
        name: None if gain is None else gain.value,
        f"{name}_low": None if gain is None else gain.low,
        f"{name}_high": None if gain is None else gain.high,
    }


def _brick_row(
    row: PredictedLatency, prices: PriceList | None, measured: Mapping[EnergyKey, int]
) -> dict[str, Any]:
    found = row.prediction
    return {
        "model": found.model,
        "batch_size": row.batch_size,
        "machine": row.machine.name,
        "threads": row.machine.threads,
        "nanoseconds": found.sequential_nanoseconds,
        "uncertainty": found.uncertainty,
        "spread": found.spread,
        "complete": found.is_complete,
        "layers": found.layers,
        "layers_known": found.layers_known,
        "layers_interpolated": found.layers_interpolated,
        "cost_per_million": row.cost_per_million(prices),
        "microjoules_per_inference": row.microjoules(measured),
    }


def _granularity_row(row: GranularityFigures) -> dict[str, Any]:
    return {
        "machine": row.machine.name,
        "threads": row.machine.threads,
        "granularity": row.granularity,
        "models": len(row.models),
        "model_names": "; ".join(row.models),
        "error": row.error,
        "speed_up": row.speed_up,
        "spread": row.spread,
    }


def _figure_row(measured: MeasuredFigure) -> dict[str, Any]:
    figure, document = measured.figure, measured.document
    return {
        "started_at": document.started_at,
        "figure": figure.name,
        "setting": "; ".join(f"{name}={value}" for name, value in figure.setting.items()),
        "unit": figure.unit,
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "cautions": " ".join(document.cautions),
    }
