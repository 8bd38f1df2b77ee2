"""`inferometer results confirm`: judges a candidate by interleaved runs, and keeps the outcome."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.cluster.options import ClusterOptions, ContextOption, KubeconfigOption
from inferometer_cli.commands import ab
from inferometer_cli.commands.compare import Inconclusive, InconclusiveOption
from inferometer_cli.commands.results.show import IdArgument
from inferometer_cli.commands.results.trend import (
    MOST_RESULTS,
    FigureOption,
    ScenarioOption,
    StepOption,
    find_trends,
    is_of,
)
from inferometer_cli.exits import ExitCode, RefusedError
from inferometer_cli.local.interleaved import (
    InterleavedSeries,
    RoundPlan,
    Variant,
    measure_until_decided,
)
from inferometer_cli.result_source import ClusterOption, ResultSource, opened_source, read_stored
from inferometer_cli.result_store import DatabaseOption, WhereOption
from inferometer_cli.run_file import read_run_file
from inferometer_cli.terminal import flushed_output, output_console, print_message

if TYPE_CHECKING:
    from inferometer_api.judgement import Judgement
    from inferometer_api.results.result import ResultDocument
    from inferometer_results.compare.comparison import Compared, Comparison
    from inferometer_results.compare.figures import Measured
    from inferometer_results.history.trend import Change, Trend

_FIGURE_NAMES = {
    "qps": "queries/s",
    "samples": "samples/s",
    "peak": "peak queries/s",
    "energy": "J/inference",
}
_FileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Run file of this side. [default: the specification of its result]",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which series the candidate is in."""

    where: str
    figure: str
    scenario: str | None
    step: str | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A change point that is to be confirmed."""

    trend: "Trend"
    change: "Change"

    def figure_name(self, measured: "Measured") -> str:
        """Return the name of its figure in a comparison."""
        figure = self.trend.series.figure
        # With one sample a query both rates are the same, and only the first is compared.
        if figure == "samples" and measured.batch_size == 1:
            figure = "qps"
        return _FIGURE_NAMES.get(figure, figure)


def confirm(  # noqa: PLR0913 - one argument for each option
    id_: IdArgument,
    *,
    where: WhereOption = "",
    figure: FigureOption = "p50",
    scenario: ScenarioOption = None,
    step: StepOption = None,
    before: _FileOption = None,
    after: _FileOption = None,
    rounds: ab.RoundsOption = 12,
    most_rounds: ab.MostRoundsOption = None,
    output: ab.OutputOption = None,
    inconclusive: InconclusiveOption = "fail",
    database: DatabaseOption = None,
    cluster: ClusterOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Confirm that a figure changed, by measuring both sides of a candidate in turn here.

    ID is the first result after the change, as `results trend` prints it. Only a change that the
    interleaved runs show as well is an alert: it is kept as accepted, and exits with 4 if it is for
    the worse. One that they refute is kept as rejected. Neither is deleted by `results prune`.
    """
    plan = RoundPlan.of(rounds, most_rounds)
    options = ClusterOptions(None, context, kubeconfig)
    with opened_source(database, options, in_cluster=cluster) as source:
        candidate = _candidate(source, source.resolve(id_), _Wanted(where, figure, scenario, step))
        runs = _variants(source, candidate, {"A": before, "B": after})
    directory = output or ab.default_directory(runs["A"])
    series = InterleavedSeries(runs, {"A": _base(before), "B": _base(after)}, directory)
    judged = _judge(series, plan, candidate)
    with opened_source(database, options, in_cluster=cluster) as source:
        _name_conditions(source, candidate, series.measured["A"][0])
        _keep(source, candidate, judged, series, inconclusive)


def _name_conditions(
    source: ResultSource, candidate: _Candidate, measured: "ResultDocument"
) -> None:
    """Print the conditions in which the interleaved runs differ from the series."""
    from inferometer_results.store.comparability import differing_conditions

    id_ = candidate.change.before.result_id
    kept = read_stored(source, id_)
    found = differing_conditions(kept, measured, [candidate.trend.series.name.scenario])
    for condition, (there, here) in found.items():
        print_message(
            f"different {condition}: {there or 'unknown'} in the series, {here or 'unknown'} here"
        )


def _keep(
    source: ResultSource,
    candidate: _Candidate,
    judged: "Judgement",
    series: InterleavedSeries,
    inconclusive: Inconclusive,
) -> None:
    """Record what the interleaved runs show; end the command with its exit code."""
    from inferometer_results.history.trend import ChangeFinding
    from inferometer_results.store.index_rows import ACCEPT_CHANGE, REJECT_CHANGE

    change, changed = candidate.change, candidate.trend.series
    if judged.outcome == "inconclusive":
        print_message(
            "Inconclusive: these runs show neither the change nor that there is none, and nothing "
            f"is recorded. Repeat the command with more --rounds and --output {series.directory}"
        )
        raise typer.Exit(ExitCode.INCONCLUSIVE if inconclusive == "fail" else ExitCode.VALID)
    is_accepted = judged.outcome == ("better" if change.is_better else "worse")
    finding = ChangeFinding(
        changed.name.scenario,
        changed.name.step,
        changed.figure,
        judged.ratio,
        judged.low,
        judged.high,
        len(series.measured["A"]),
    )
    action = ACCEPT_CHANGE if is_accepted else REJECT_CHANGE
    source.annotate(change.after.result_id, action, finding.text())
    if not is_accepted:
        print_message("Rejected: the interleaved runs do not show the change.")
        return
    print_message(f"Accepted: the interleaved runs show {changed.figure} {judged.outcome} as well.")
    if not change.is_better:
        raise typer.Exit(ExitCode.SLOWER)


def _candidate(source: ResultSource, id_: str, wanted: _Wanted) -> _Candidate:
    """Return the candidate that begins with a result. Raises RefusedError if there is not one."""
    from inferometer_cli.tables.trend import series_options
    from inferometer_results.store.query import Search

    (result,) = source.search(Search(f"id={id_}", limit=1, with_retracted=True)).rows
    keys = {f"key={row['key']}" for row in result["measurements"]}
    where = " or ".join(sorted(keys)) or f"id={id_}"
    if wanted.where.strip():
        where = f"({wanted.where}) and ({where})"
    found = [
        _Candidate(trend, change)
        for trend in find_trends(source, where, wanted.figure, MOST_RESULTS)
        for change in trend.changes
        if change.after.result_id == id_ and is_of(trend.series.name, wanted.scenario, wanted.step)
    ]
    if not found:
        raise RefusedError(
            f"No change of {wanted.figure} begins with result {id_[:12]}. "
            "`inferometer results trend` prints the candidates."
        )
    if len(found) > 1:
        choices = "".join(f"\n  {series_options(each.trend.series.name)}" for each in found)
        raise RefusedError(f"Several series change here. Choose one of them by:{choices}")
    here, there = socket.gethostname(), found[0].trend.series.name.node
    if here != there:
        raise RefusedError(
            f"The series was measured on {there}, and this is {here}. Run the command on {there}: "
            "another machine shows nothing about it."
        )
    return found[0]


def _variants(
    source: ResultSource, candidate: _Candidate, files: dict[Variant, Path | None]
) -> dict[Variant, BenchmarkRun]:
    """Return what is measured in turn. Raises RefusedError if both are the same."""
    sides: dict[Variant, str] = {
        "A": candidate.change.before.result_id,
        "B": candidate.change.after.result_id,
    }
    runs: dict[Variant, BenchmarkRun] = {}
    for variant, id_ in sides.items():
        file = files[variant]
        run = read_stored(source, id_).run if file is None else read_run_file(file, [])
        runs[variant] = _only(run, candidate.trend.series.name.scenario)
    if runs["A"].spec == runs["B"].spec and None in files.values():
        raise RefusedError(
            "Both sides have the same specification, so measuring them in turn would show nothing: "
            "something else has changed. Give a run file for each side with --before and --after, "
            "for example for two External servers, one with each version."
        )
    return runs


def _only(run: BenchmarkRun, scenario: str) -> BenchmarkRun:
    """Return a run with one scenario. Raises RefusedError if it has none of this name."""
    scenarios = [each for each in run.spec.scenarios if each.name == scenario]
    if not scenarios:
        raise RefusedError(f"{run.name} has no scenario {scenario!r}, in which the figure changed.")
    return run.model_copy(update={"spec": run.spec.model_copy(update={"scenarios": scenarios})})


def _judge(series: InterleavedSeries, plan: RoundPlan, candidate: _Candidate) -> "Judgement":
    """Measure in turn and print the runs; return the judgement of the candidate's figure."""
    from inferometer_cli.tables.comparison import print_rounds
    from inferometer_results.compare.comparison import compare_rounds

    comparison = measure_until_decided(
        series,
        plan,
        lambda look: compare_rounds(series.measured["A"], series.measured["B"], look=look),
        is_open=lambda found: any(
            figure.word == "inconclusive" for figure, _ in _of_candidate(found, candidate)
        ),
    )
    before, after = series.measured["A"], series.measured["B"]
    with flushed_output():
        print_rounds(str(series.directory), before, after, comparison, output_console())
    for figure, caveats in _of_candidate(comparison, candidate):
        if figure.judgement is not None:
            return figure.judgement
        for caveat in caveats:
            print_message(f"not shown: {candidate.trend.series.name.scenario} {caveat}")
    print_message("Not judged: the interleaved runs lack the figure, and nothing is recorded.")
    raise typer.Exit(ExitCode.INVALID)


def _of_candidate(
    comparison: "Comparison", candidate: _Candidate
) -> list[tuple["Compared", tuple[str, ...]]]:
    """Return the candidate's figure, with the caveats of its step."""
    return [
        (figure, pair.caveats)
        for pair in comparison.pairs
        for figure in pair.figures
        if pair.before.step == candidate.trend.series.name.step
        and figure.name == candidate.figure_name(pair.before)
    ]


def _base(file: Path | None) -> Path:
    return (file.parent if file is not None else Path()).resolve()
