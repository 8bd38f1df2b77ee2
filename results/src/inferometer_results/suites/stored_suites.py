"""Suites in the store: their executions, runs, anchors and baselines, from the rows of results."""

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select

from inferometer_api.ranking import Computation, engine_of
from inferometer_api.results.reading import read_result
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.scenario_summary import LONGEST_STEP
from inferometer_api.scenarios.table import SEARCHES
from inferometer_api.suite.anchor import merge_pairs, ratio_of
from inferometer_api.suite.comparisons import BaselineCell
from inferometer_api.suite.figures import (
    CellKey,
    Figures,
    MeasuredRun,
    StepFigures,
    mean_figures,
    specs_by_name,
)
from inferometer_api.suite.labels import (
    AXIS_LABEL_PREFIX,
    BLOCK_LABEL,
    CELL_LABEL,
    EXECUTION_LABEL,
    ROLE_LABEL,
    SPEC_LABEL,
    SYSTEM_LABEL,
)
from inferometer_api.suite.outcome import SuiteOutcome
from inferometer_api.suite.status import AnchorPairs
from inferometer_results.compare.outputs import computation_of, ranking_caveat
from inferometer_results.store.index_rows import USER
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store
from inferometer_results.store.suite_outcomes import find_outcomes
from inferometer_results.store.tables import CONDITIONS, LABEL, MEASUREMENT, RESULT
from inferometer_results.suites.labels import suite_label_fault
from inferometer_results.suites.view import Caveat, SuiteRun

_MOST_EXECUTIONS = 200
_MOST_ROWS = 4000
"""A suite has at most 1,000 cells: four executions of the largest, and many of the usual ones."""
_ANCHOR = (CELL_LABEL, SPEC_LABEL)
"""The labels that name an anchor."""
_LARGEST_RATIO = 2000.0
"""Of the figures of a pair, which a status has in parts per million, as 32 bits."""
Row = Mapping[str, Any]
"""A result as `Store.find` returns it."""


def executions(store: Store, suite: str) -> dict[str, list[Row]]:
    """Return the newest results of a suite by execution, the newest execution first.

    Results that users stored are left out: they are no baseline, and no pair of an anchor.
    """
    found: dict[str, list[Row]] = {}
    where = f'suite="{suite}" and source!="{USER}"'
    search = Search(where, sort="-started", limit=_MOST_ROWS)
    for row in store.find(search):
        execution = run_labels(row).get(EXECUTION_LABEL, "")
        name = StoredExecution(row["namespace"], execution).name
        found.setdefault(name, []).append(row)
    return found


@dataclass(frozen=True, slots=True)
class StoredExecution:
    """An execution of a suite; suites of several namespaces may have one name."""

    namespace: str
    id: str
    by_users: bool = False
    """Whether users stored its results, which never rank with those of an operator."""

    @property
    def name(self) -> str:
        """Return its name among those of all namespaces."""
        name = f"{self.namespace}/{self.id}" if self.namespace else self.id
        return f"{name} (stored by users)" if self.by_users else name


def stored_executions(store: Store, suite: str) -> list[StoredExecution]:
    """Return the executions of a suite, the newest first, and after them those of users."""
    newest = func.max(RESULT.c.started_at)
    columns = (RESULT.c.namespace, LABEL.c.value, RESULT.c.source)
    query = (
        select(*columns)
        .join(LABEL, LABEL.c.result_number == RESULT.c.number)
        .where(
            RESULT.c.suite == suite,
            RESULT.c.retracted.is_(None),
            LABEL.c.origin == "run",
            LABEL.c.name == EXECUTION_LABEL,
        )
        .group_by(*columns)
        .order_by(RESULT.c.source == USER, newest.desc(), LABEL.c.value.desc())
        .limit(_MOST_EXECUTIONS)
    )
    found = (
        StoredExecution(row["namespace"], row["value"], row["source"] == USER)
        for row in store.select(query)
    )
    return list(dict.fromkeys(found))


def results_of(store: Store, suite: str, execution: StoredExecution) -> list[Row]:
    """Return the results of an execution."""
    conditions = [f'suite="{suite}"', f'source{"=" if execution.by_users else "!="}"{USER}"']
    # A condition has no way to write a quote, which a label of an imported result can have.
    if '"' not in execution.namespace:
        conditions.append(f'namespace="{execution.namespace}"')
    if '"' not in execution.id:
        conditions.append(f'label.{EXECUTION_LABEL}="{execution.id}"')
    found = store.find(Search(" and ".join(conditions), limit=_MOST_ROWS))
    return [
        row
        for row in found
        if row["namespace"] == execution.namespace
        and run_labels(row).get(EXECUTION_LABEL) == execution.id
    ]


def stored_outcomes(store: Store, suite: str) -> dict[str, SuiteOutcome]:
    """Return the outcomes of a suite by execution, named as `executions` does, the oldest first."""
    return {
        StoredExecution(each.namespace, each.outcome.execution).name: each.outcome
        for each in reversed(find_outcomes(store, suite))
    }


def unmeasured_runs(outcome: SuiteOutcome, measured: Iterable[SuiteRun]) -> list[SuiteRun]:
    """Return the runs of an execution that left no result."""
    known = {run.name for run in measured}
    return [
        SuiteRun(
            each.name,
            tuple(each.values.items()),
            each.system,
            each.block,
            each.role,
            each.state,
            each.reason,
        )
        for each in outcome.unmeasured
        if each.name not in known
    ]


def reused_runs(store: Store, outcome: SuiteOutcome) -> list[SuiteRun]:
    """Return the runs of an execution for which an earlier result stands."""
    ids = {each.result for each in outcome.reused if each.result}
    rows = {row["id"]: row for row in _rows_with_figures(store, ids)} if ids else {}
    engines = engines_of(store, rows.values())
    return [
        SuiteRun(
            each.name,
            tuple(each.values.items()),
            each.system,
            each.block,
            "cell",
            "R",
            "" if each.result in rows else "Its result is no longer in the database.",
            row_figures(rows[each.result]) if each.result in rows else {},
            f"/results/{each.result}" if each.result in rows else "",
            engines.get(each.result, ""),
        )
        for each in outcome.reused
    ]


def _rows_with_figures(store: Store, ids: Collection[str]) -> list[Row]:
    """Return results with their measurements, and without labels."""
    rows = store.select(select(RESULT).where(RESULT.c.id.in_(list(ids))))
    found: dict[int, list[Row]] = {row["number"]: [] for row in rows}
    wanted = select(MEASUREMENT).where(MEASUREMENT.c.result_number.in_(list(found)))
    in_order = wanted.order_by(MEASUREMENT.c.result_number, MEASUREMENT.c.position)
    for each in store.select(in_order):
        found[each["result_number"]].append(each)
    return [{**row, "measurements": found[row["number"]]} for row in rows]


def run_labels(row: Row) -> dict[str, str]:
    """Return the labels of a result's run."""
    return {each["name"]: each["value"] for each in row["labels"] if each["origin"] == "run"}


def stored_runs(rows: Iterable[Row], engines: Mapping[str, str]) -> list[SuiteRun]:
    """Return the runs of an execution, the earliest first; `engines` are those of `engines_of`."""
    in_order = sorted(rows, key=lambda row: str(row["started_at"]))
    return [_stored_run(row, engines.get(row["id"], "")) for row in in_order]


def engines_of(store: Store, rows: Iterable[Row]) -> dict[str, str]:
    """Return what computed the outputs of each result, by its ID: equal texts compute alike."""
    found = list(rows)
    keys = {row["id"]: row["measurements"][0]["key"] for row in found if row["measurements"]}
    query = select(CONDITIONS).where(CONDITIONS.c.key.in_(set(keys.values())))
    known = {each["key"]: json.loads(each["content"]) for each in store.select(query)}
    return {row["id"]: _engine(row, known.get(keys.get(row["id"]), {})) for row in found}


def _engine(row: Row, conditions: Mapping[str, str]) -> str:
    providers = conditions.get("threads", "").partition("providers ")[2]
    parts = (row["runtime"], row["engine"], conditions.get("precision", ""), providers)
    return ", ".join(filter(None, parts))


def ranking_of(store: Store) -> Caveat:
    """Return what reads two results of a store to see whether they may be ranked."""

    @functools.cache
    def document(link: str) -> ResultDocument:
        id_ = link.rpartition("/")[2]
        return read_result(store.read(id_).content, source=f"Result {id_}").document

    return lambda one, other: ranking_caveat(document(one.link), document(other.link))


def _stored_run(row: Row, engine: str) -> SuiteRun:
    labels = run_labels(row)
    state = {"VALID": "V", "INVALID": "I"}.get(row["verdict"], "F")
    fault = suite_label_fault(labels)
    if fault:
        # Its place in the suite is not known.
        state = "F"
    broken = " ".join(sorted({each["reasons"] for each in row["measurements"] if each["reasons"]}))
    return SuiteRun(
        str(row["name"]),
        tuple(
            (name.removeprefix(AXIS_LABEL_PREFIX), value)
            for name, value in labels.items()
            if name.startswith(AXIS_LABEL_PREFIX)
        ),
        labels.get(SYSTEM_LABEL, ""),
        1 if fault else int(labels.get(BLOCK_LABEL) or 1),
        labels.get(ROLE_LABEL, "cell"),
        state,
        "" if state == "V" else fault or broken or str(row["verdict"]),
        {} if fault else row_figures(row),
        f"/results/{row['id']}",
        engine,
    )


def row_figures(row: Row) -> Figures:
    """Return the figures of the headline steps of a result; see `figures_of`."""
    headlines = [each for each in row["measurements"] if each["headline"]]
    return {each["scenario"]: {} for each in headlines} | mean_figures(
        (each["scenario"], figure, value) for each in headlines for figure, value in _figures(each)
    )


def row_step_figures(row: Row) -> StepFigures:
    """Return the figures of a result that a suite's gate judges; see `step_figures`."""
    found = [
        ((each["scenario"], "" if each["peak_qps"] else each["step"][:LONGEST_STEP]), each)
        for each in row["measurements"]
        # The probes of a search are steps as well.
        if each["headline"] or each["kind"] not in SEARCHES
    ]
    return {key: {} for key, _ in found} | mean_figures(
        (key, figure, value) for key, each in found for figure, value in _figures(each)
    )


def _figures(measurement: Row) -> Iterator[tuple[str, float | None]]:
    if measurement["peak_qps"]:
        yield "qps", measurement["peak_qps"]
        return
    if measurement["scheduled_qps"] is None:
        yield "qps", measurement["qps"]
    yield "p50", (measurement["p50_nanoseconds"] or 0) / 1e9


def stored_baseline(store: Store, rows: Iterable[Row]) -> dict[CellKey, BaselineCell]:
    """Return the VALID runs of an execution, by cell and system."""
    found: dict[CellKey, BaselineCell] = {}
    specs: dict[CellKey, Mapping[str, str]] = {}
    for row in rows:
        labels = run_labels(row)
        if (
            row["verdict"] == "VALID"
            and labels.get(ROLE_LABEL) == "cell"
            and not suite_label_fault(labels)
        ):
            key = (labels.get(CELL_LABEL, ""), labels.get(SYSTEM_LABEL, ""))
            if key not in found:  # all runs of a cell have one spec
                source = f"Result {row['id']}"
                document = read_result(store.read(row["id"]).content, source=source).document
                found[key] = BaselineCell(computations={_planned_computation(document)})
                specs[key] = specs_by_name(document.run.spec.scenarios)
            found[key].runs.append(_measured_run(row, specs[key]))
    return found


def _measured_run(row: Row, specs: Mapping[str, str]) -> MeasuredRun:
    """Return what the gate knows of a VALID result; see `measured_run`."""
    return MeasuredRun(row_step_figures(row), frozenset(), specs, machine(row))


def _planned_computation(document: ResultDocument) -> Computation:
    """Return what computed the outputs of a result, as a plan knows it: without read-backs."""
    return replace(computation_of(document), engine=engine_of(document.run.spec.server, {}))


def stored_pairs(by_execution: Mapping[str, Sequence[Row]]) -> list[AnchorPairs]:
    """Return the A/A pairs of the anchor in earlier executions, by class of nodes, newest last."""
    pairs: list[AnchorPairs] = []
    for rows in reversed(list(by_execution.values())):
        ends: dict[tuple[str, str], dict[str, Row]] = {}
        for row in sorted(rows, key=lambda row: str(row["started_at"])):
            labels = run_labels(row)
            block = (labels.get(BLOCK_LABEL, ""), labels.get(SYSTEM_LABEL, ""))
            if row["verdict"] == "VALID" and labels.get(ROLE_LABEL) in {"opening", "closing"}:
                ends.setdefault(block, {})[labels[ROLE_LABEL]] = row
        for of_block in ends.values():
            pairs += _pair(of_block.get("opening"), of_block.get("closing"))
    return merge_pairs((), pairs)


def _pair(first: Row | None, last: Row | None) -> list[AnchorPairs]:
    """Return the pair of two runs of the anchor, if both are there and of one machine and cell."""
    if first is None or last is None or machine(first) != machine(last):
        return []
    (cell, spec), other = (
        [run_labels(row).get(each, "") for each in _ANCHOR] for row in (first, last)
    )
    ratio = ratio_of(row_step_figures(first), row_step_figures(last))
    if ratio is None or other != [cell, spec] or not ratio < _LARGEST_RATIO:
        return []
    if suite_label_fault(run_labels(first)):
        return []
    return [
        AnchorPairs(
            node_class=machine(first),
            cell=cell,
            spec_digest=spec[:16],
            ratios_parts_per_million=[round(ratio * 1_000_000)],
        )
    ]


def machine(row: Row) -> str:
    """Return the class of a result's node."""
    return f"{row['cpu']} {row['gpu']}".strip()[:253] or "this machine"
