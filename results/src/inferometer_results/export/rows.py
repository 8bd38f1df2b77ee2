"""Flat rows of a result, one for each step and each model of its mix, and their CSV and JSON.

Names and units are those of the result document: `p99Nanoseconds`, `achievedQps`.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from inferometer_api.results.result import (
    Distribution,
    ModelFigures,
    ResultDocument,
    ScenarioResult,
    Step,
    Verdict,
    percentile_of,
)
from inferometer_results.headline import headline, model_of
from inferometer_results.quantity import PERCENTILES
from inferometer_results.wording.search import steps_shown

Value = str | int | float | None
Row = dict[str, Value]
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Spreadsheets take a cell that begins so for a formula."""
_SERVER_TIME = (
    "queueNanoseconds",
    "computeInputNanoseconds",
    "computeInferNanoseconds",
    "computeOutputNanoseconds",
)

_NOTHING = ScenarioResult(name="", kind="", seed=0, steps=[], verdict=Verdict(state="INVALID"))
"""Gives a run that measured nothing the same header as any other."""


def csv_rows(document: ResultDocument) -> str:
    """Return a CSV with a header; an unknown figure is an empty cell, and no cell a formula."""
    written = io.StringIO()
    nothing = _of_scenario(_NOTHING) | _figures(None) | _of_peak(_NOTHING)
    outcome = _of_outcome(document)
    writer = csv.DictWriter(written, [*_of_run(document), *nothing, *outcome], lineterminator="\n")
    writer.writeheader()
    rows = [row | outcome for row in _rows(document)]
    if not rows:
        # The cause of a run that measured nothing is in no row of a scenario.
        rows = [_of_run(document) | dict.fromkeys(nothing) | outcome]
    writer.writerows(map(without_formulas, rows))
    return written.getvalue()


def without_formulas(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of CSV in which no text is a formula to a spreadsheet that opens it.

    Names, messages and labels come from others. An apostrophe before such a text is what
    spreadsheets write themselves.
    """
    return {
        name: f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value
        for name, value in row.items()
    }


def json_rows(document: ResultDocument) -> str:
    """Return a JSON object: the outcome of the run, and the rows without unknown figures."""
    head = headline(document)
    known = [
        {name: value for name, value in row.items() if value is not None} for row in _rows(document)
    ]
    written = {
        **_of_run(document),
        **_of_outcome(document),
        "valid": document.valid,
        "message": f"{head.word}: {head.sentence}",
        "steps": known,
    }
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def _rows(document: ResultDocument) -> Iterator[Row]:
    """Yield a row for each step, and below it one for each model of a mix.

    A search has only the probe by which it is judged.
    """
    for result in document.scenarios:
        steps: list[Step | None] = [*steps_shown(result)]
        for step in steps or [None]:
            row = _of_run(document) | _of_scenario(result) | _figures(step) | _of_peak(result)
            yield row
            if step is not None:
                unknown = dict.fromkeys(_figures(None)) | {"step": step.label}
                yield from (row | unknown | _of_model(each) for each in step.models)


def _of_run(document: ResultDocument) -> Row:
    return {
        "run": document.run.name,
        "runId": document.run_id,
        "startedAt": document.started_at,
        "model": model_of(document),
    }


def _of_outcome(document: ResultDocument) -> Row:
    """Return how the run ended, and the cause if it is incomplete."""
    outcome = document.outcome
    return {
        "outcome": outcome.state,
        "outcomeReason": outcome.reason,
        "outcomeMessage": outcome.message,
    }


def _of_scenario(result: ScenarioResult) -> Row:
    verdict = result.verdict
    return {
        "scenario": result.name,
        "kind": result.kind,
        "repeat": result.repeat,
        "verdict": verdict.state,
        "reasons": " ".join(dict.fromkeys(finding.rule for finding in verdict.reasons)),
        "cautions": " ".join(dict.fromkeys(finding.rule for finding in verdict.cautions)),
    }


def _figures(step: Step | None) -> Row:
    figures: Row = {
        "step": "" if step is None else step.label,
        "mixModel": None,
        "queries": None if step is None else step.counts.queries,
        "failed": None if step is None else step.counts.failed,
        "scheduledQps": None if step is None else step.scheduled_qps,
        "achievedQps": None if step is None else step.achieved_qps,
        "achievedSamplesPerSecond": None if step is None else step.achieved_samples_per_second,
        **_latencies(None if step is None else step.latency),
    }
    spent = None if step is None else step.server_time
    parts = {} if spent is None else spent.model_dump(by_alias=True)
    figures |= {name: parts.get(name) for name in _SERVER_TIME}
    energy = None if step is None else step.energy
    figures["microjoulesPerInference"] = (
        None if energy is None else energy.microjoules_per_inference
    )
    figures["energyAttribution"] = None if energy is None else energy.attribution
    return figures


def _of_model(figures: ModelFigures) -> Row:
    return {
        "mixModel": figures.model,
        "queries": figures.queries,
        "failed": figures.failed,
        "achievedQps": figures.achieved_qps,
        **_latencies(figures.latency),
    }


def _latencies(latency: Distribution | None) -> Row:
    figures: Row = {"meanNanoseconds": None if latency is None else latency.mean_nanoseconds}
    for percentile in PERCENTILES:
        name = f"p{percentile:g}".replace(".", "")
        value = percentile_of(latency, percentile)
        figures[f"{name}Nanoseconds"] = None if value is None else value.nanoseconds
        figures[f"{name}LowNanoseconds"] = None if value is None else value.low_nanoseconds
        figures[f"{name}HighNanoseconds"] = None if value is None else value.high_nanoseconds
    figures["maxNanoseconds"] = None if latency is None else latency.max_nanoseconds
    return figures


def _of_peak(result: ScenarioResult) -> Row:
    peak = result.peak
    return {
        "peakQps": None if peak is None else peak.qps,
        "peakLowQps": None if peak is None else peak.low_qps,
        "peakHighQps": None if peak is None else peak.high_qps,
        "peakConfidence": None if peak is None else peak.confidence,
        "stopReason": None if peak is None else peak.stop_reason,
    }
