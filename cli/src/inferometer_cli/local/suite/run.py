"""A suite on this machine: run after run, continued after an interruption, judged at the end."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.suite.comparisons import BaselineCell
from inferometer_api.suite.figures import CellKey
from inferometer_api.suite.gate import judge_suite
from inferometer_api.suite.labels import label_value
from inferometer_api.suite.outcome import suite_outcome
from inferometer_api.suite.progress import WAITING, next_runs
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_api.suite.status import AnchorPairs, GateStatus
from inferometer_api.suite.wording import gate_sentence, gate_sentences, gate_word
from inferometer_api.timestamps import format_time
from inferometer_api.wording import counted
from inferometer_cli.exits import (
    STOPPED_STATES,
    ExitCode,
    FailedError,
    RefusedError,
    StopSignal,
    deferred_signals,
    exit_code_of,
)
from inferometer_cli.local.suite.canary import look_at_machine
from inferometer_cli.local.suite.folder import (
    SuiteFolder,
    lock_folder,
    recorded_execution,
)
from inferometer_cli.local.suite.page import equivalence_in, write_page
from inferometer_cli.suite_file import cell_runs, plan_file
from inferometer_cli.terminal import ProgressFormat, print_error, print_message
from inferometer_cli.time_left import planned_seconds
from inferometer_results.quantity import long_duration

if TYPE_CHECKING:
    from inferometer_cli.local.run import RunOptions
    from inferometer_results.suites.stored_suites import Row


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """What the command line says about a suite."""

    output: Path | None
    save: bool
    agent: str | None = None
    progress: ProgressFormat = "auto"
    passes_inconclusive: bool = False
    """Whether a gate that is INCONCLUSIVE counts as PASS in the exit code."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What the runs of a suite are measured with."""

    suite: BenchmarkSuite
    folder: SuiteFolder
    runs: Mapping[str, BenchmarkRun]
    """The resolved run of each cell, by its key."""
    base: Path
    options: SuiteOptions
    ending: StopSignal


@dataclass(frozen=True, slots=True)
class _History:
    """What the database knows of earlier executions."""

    pairs: tuple[AnchorPairs, ...] = ()
    baseline: Mapping[CellKey, BaselineCell] | None = None


def run_suite(suite: BenchmarkSuite, file: Path, options: SuiteOptions) -> ExitCode:
    """Measure every run of a suite that has no result yet; return the exit code."""
    # A name of a folder is shorter than that of a suite may be.
    name = f"{label_value(suite.name)}-{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}"
    directory = options.output or Path("results") / name
    from inferometer_cli.result_file import check_directory

    check_directory(directory)
    # Not the directory's name: it may be the same every night.
    execution = recorded_execution(directory) or name
    plan = plan_file(suite, source=str(file), place="Local", execution=execution)
    runs = cell_runs(plan)
    if suite.spec.systems is not None:
        print_message("note: spec.systems is for clusters: every cell runs on this machine.")
    if suite.spec.schedule is not None:
        print_message("note: spec.schedule is for clusters: the suite runs once, now.")
    base = file.parent.resolve()
    with lock_folder(directory):
        folder = SuiteFolder.open(directory, plan)
        _check_files(folder, runs, base)
        folder.write()
        with deferred_signals() as ending:
            note = look_at_machine() if "." in {each.state for each in folder.outcomes} else ""
            ended = _measure_all(_Work(suite, folder, runs, base, options, ending))
        return _finish(suite, folder, options, ended, note)


def _check_files(folder: SuiteFolder, runs: Mapping[str, BenchmarkRun], base: Path) -> None:
    """Raise RefusedError if a run that is left names a file that it cannot use here."""
    from inferometer_cli.local.files import check_files

    states = zip(folder.plan.runs, folder.outcomes, strict=True)
    for cell in {run.cell.key: run.cell for run, found in states if found == WAITING}.values():
        try:
            check_files(runs[cell.key], base)
        except RefusedError as error:
            raise RefusedError(f"cell {cell.label}: {error}") from error


def _measure_all(work: _Work) -> ExitCode | None:
    """Measure what is left; return the exit code of an interruption, None if nothing is left."""
    folder, pace = work.folder, _Pace(work.folder, work.runs)
    stops = work.suite.spec.on_failure == "Stop"
    while True:
        states = [each.state for each in folder.outcomes]
        if stops and "F" in states:
            print_message("spec.onFailure is Stop: no run is started after one has failed.")
            return None
        found = next_runs(folder.plan, states, max_concurrent=1)
        if not found:
            return None
        pace.announce(found[0])
        code = _measure_one(work, found[0])
        if code is not None:
            return code
        pace.count()


def _measure_one(work: _Work, index: int) -> ExitCode | None:
    """Measure a run, or take the stored result of an equal one; return as `_measure_all`."""
    from inferometer_cli.local.measurement import measure
    from inferometer_cli.local.suite.reuse import reusable_result, reuse_obstacle
    from inferometer_cli.result_file import save_result

    folder = work.folder
    planned = folder.plan.runs[index]
    run = work.runs[planned.cell.key].model_copy(update={"metadata": planned.run.metadata})
    may_reuse = work.suite.spec.reuse and planned.role == "cell"
    taken = {each.run_id for each in folder.documents.values()}
    stored = reusable_result(run, work.base, taken) if may_reuse else None
    if may_reuse and (obstacle := reuse_obstacle(run, work.base)):
        print_message(f"note: {planned.label} is measured even with reuse: {obstacle}.")
    if stored is None:
        document = measure(run, work.base, work.ending, _run_options(run, work.options))
        if document.outcome.state in STOPPED_STATES:
            return exit_code_of(document)
        if document.outcome.state != "Complete" or not document.scenarios:
            print_error(f"{planned.label}: {document.outcome.message}")
            folder.fail(index, document.outcome.message)
            return work.ending.exit_code
        _store(save_result(document, folder.directory_of(planned))[0], work.options)
        folder.take(index, document)
    else:
        document = stored.document
        print_message(
            f"reused: {planned.label} is the result of the run {document.run.name} of "
            f"{document.started_at}, with the same spec, model, version and machine."
        )
        folder.reuse(index, document, stored.id)
        save_result(document, folder.directory_of(planned))
    return work.ending.exit_code


def _run_options(run: BenchmarkRun, options: SuiteOptions) -> "RunOptions":
    from inferometer_api.metrics.definitions import run_labels
    from inferometer_cli.local.prometheus_targets import PrometheusTargets
    from inferometer_cli.local.run import RunOptions

    targets = PrometheusTargets(None, run_labels(run)[1])
    return RunOptions(targets, options.agent, progress=options.progress)


def _store(result: Path, options: SuiteOptions) -> None:
    from inferometer_cli.result_store import keep

    if not options.save:
        return
    try:
        keep(result)
    except (FailedError, OSError) as error:
        print_error(f"The result is not in the database. {error}")


class _Pace:
    """How far the suite is, and how long it still takes."""

    def __init__(self, folder: SuiteFolder, runs: Mapping[str, BenchmarkRun]) -> None:
        self._folder = folder
        self._planned = {key: planned_seconds(run) for key, run in runs.items()}
        self._began = time.monotonic()
        self._measured_seconds = 0.0
        """Planned seconds of the runs that this command measured."""
        self._current = 0.0

    def announce(self, index: int) -> None:
        """Print which run begins, and the time left."""
        runs = self._folder.plan.runs
        left = [
            run
            for run, outcome in zip(runs, self._folder.outcomes, strict=True)
            if outcome.state == "."
        ]
        self._current = self._planned[runs[index].cell.key]
        rest = sum(self._planned[run.cell.key] for run in left)
        spent = time.monotonic() - self._began
        factor = spent / self._measured_seconds if self._measured_seconds else 1.0
        number = len(runs) - len(left) + 1
        run = runs[index]
        role = "" if run.role == "cell" else f" (anchor, {run.role})"
        print_message(
            f"run {number}/{len(runs)}: {run.label}{role}, block {run.block.name}, about "
            f"{long_duration(rest * factor)} left"
        )

    def count(self) -> None:
        """Take in that the announced run is over."""
        self._measured_seconds += self._current


def _finish(
    suite: BenchmarkSuite,
    folder: SuiteFolder,
    options: SuiteOptions,
    ended: ExitCode | None,
    note: str,
) -> ExitCode:
    """Write the page, print the outcome, and return the exit code."""
    gate = None
    if ended is None and suite.spec.gate is not None:
        history = _history(suite, folder, options)
        gate = judge_suite(
            suite.spec,
            folder.plan,
            folder.outcomes,
            history.pairs,
            history.baseline,
            equivalence_in(folder),
        )
    page = write_page(suite, folder, gate, note)
    states = [each.state for each in folder.outcomes]
    done = sum(state not in ".a" for state in states)
    if ended is not None:
        print_message(
            f"{done} of {len(states)} runs are over. To continue after them, repeat the command "
            f"with --output {folder.path}"
        )
        return ended
    if not folder.is_changed:
        print_message(
            f"note: Nothing was left to measure: these are the results in {folder.path}. To "
            "measure the suite again, choose another directory with --output."
        )
    words = {"V": "VALID", "R": "reused", "I": "INVALID", "F": "failed", ".": "not started"}
    counts = ", ".join(
        f"{states.count(key)} {word}" for key, word in words.items() if key in states
    )
    _keep_outcome(folder, gate, options)
    print_message(f"\nsuite   {counted(len(states), 'run')}: {counts}\npage    {page}")
    if gate is not None:
        _print_gate(gate)
    return exit_code_of_suite(states, gate, passes_inconclusive=options.passes_inconclusive)


def _keep_outcome(folder: SuiteFolder, gate: GateStatus | None, options: SuiteOptions) -> None:
    """Keep the gate's outcome, and the runs without a result, in the database."""
    if not options.save:
        return
    from inferometer_cli.result_store import open_store
    from inferometer_results.store.index_rows import Origin
    from inferometer_results.store.suite_outcomes import keep_outcome
    from inferometer_results.suites.stored_suites import stored_outcomes

    now = format_time(datetime.now(tz=UTC))
    outcome = suite_outcome(folder.plan, folder.outcomes, gate, now)
    try:
        with open_store(None) as store:
            known = stored_outcomes(store, outcome.suite).get(outcome.execution)
            if known is not None and not folder.is_changed:
                outcome = outcome.model_copy(update={"finished_at": known.finished_at})
            keep_outcome(store, outcome.model_dump_json().encode(), Origin("run", now))
    except (FailedError, OSError) as error:
        print_error(f"The outcome of the suite is not in the database. {error}")


def _print_gate(gate: GateStatus) -> None:
    print_message(f"gate    {gate_word(gate)}: {gate_sentence(gate)}")
    for sentence in gate_sentences(gate):
        print_message(f"        {sentence}")


def exit_code_of_suite(
    states: Sequence[str], gate: GateStatus | None, *, passes_inconclusive: bool = False
) -> ExitCode:
    """Return the exit code: of an armed gate first, then of the runs."""
    if gate is not None and gate.armed:
        match gate.outcome:
            case "FAIL":
                return ExitCode.SLOWER
            case "CouldNotRun":
                return ExitCode.FAILED
            case "INCONCLUSIVE" if not passes_inconclusive:
                return ExitCode.INVALID if "I" in states else ExitCode.INCONCLUSIVE
            case "PASS" | "INCONCLUSIVE":
                pass
    if "F" in states or "." in states:
        return ExitCode.FAILED
    return ExitCode.INVALID if "I" in states else ExitCode.VALID


def _history(suite: BenchmarkSuite, folder: SuiteFolder, options: SuiteOptions) -> _History:
    """Return what the database knows of earlier executions; nothing without a database."""
    from inferometer_cli.result_store import open_store
    from inferometer_results.suites.stored_suites import (
        executions,
        stored_baseline,
        stored_outcomes,
        stored_pairs,
    )

    try:
        with open_store(None) as store:
            earlier = _executions_before(folder, executions(store, label_value(suite.name)))
            pairs = tuple(stored_pairs(earlier))
            named = None if suite.spec.baseline is None else suite.spec.baseline.suite
            if named is None:
                return _History(pairs)
            label = label_value(named)
            others = _executions_before(folder, executions(store, label))
            complete = {
                name for name, each in stored_outcomes(store, label).items() if not each.unmeasured
            }
            latest = next((rows for name, rows in others.items() if name in complete), None)
            return _History(pairs, None if latest is None else stored_baseline(store, latest))
    except (FailedError, RefusedError, OSError) as error:
        if options.save:
            print_error(f"Earlier executions are not known. {error}")
        return _History()


def _executions_before(
    folder: SuiteFolder, found: Mapping[str, Sequence["Row"]]
) -> dict[str, Sequence["Row"]]:
    """Return the executions of which every run was measured before those of a folder."""
    begun_at = folder.begun_at
    return {
        name: rows
        for name, rows in found.items()
        if name != folder.execution and (not begun_at or rows[0]["started_at"] < begun_at)
    }
