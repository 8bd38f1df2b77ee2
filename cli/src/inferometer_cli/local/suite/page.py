"""The page of a suite that is measured on this machine, and which of its cells may be ranked."""

from pathlib import Path
from typing import TYPE_CHECKING

from inferometer_api.suite.comparisons import Equivalence
from inferometer_api.suite.figures import CellKey, cell_key, figures_of
from inferometer_api.suite.plan_suite import PlannedRun
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_api.suite.status import GateStatus
from inferometer_cli.local.suite.folder import PAGE_NAME, SuiteFolder, replace_file

if TYPE_CHECKING:
    from inferometer_results.suites.view import SuiteRun


def write_page(
    suite: BenchmarkSuite, folder: SuiteFolder, gate: GateStatus | None, note: str
) -> Path:
    """Write the page of a suite's folder; return its path. Raises FailedError."""
    from inferometer_results.compare.outputs import ranking_caveat
    from inferometer_results.suites.page import render_suite
    from inferometer_results.suites.view import suite_view

    runs = [_shown(run, index, folder) for index, run in enumerate(folder.plan.runs)]
    path = folder.path / PAGE_NAME

    def caveat(one: "SuiteRun", other: "SuiteRun") -> str:
        return ranking_caveat(folder.documents[one.name], folder.documents[other.name])

    view = suite_view(suite.name, folder.execution, runs, gate=gate, note=note, caveat=caveat)
    replace_file(path, render_suite(view))
    return path


def equivalence_in(folder: SuiteFolder) -> Equivalence:
    """Return what compares the outputs of two cells in a folder."""
    from inferometer_results.compare.outputs import output_agreement

    documents = {
        cell_key(run): folder.documents[run.name]
        for run in folder.plan.runs
        if run.name in folder.documents
    }

    def are_equivalent(one: CellKey, other: CellKey) -> bool:
        found = output_agreement(documents.get(one), documents.get(other))
        return found is not None and found.is_equivalent

    return are_equivalent


def _shown(run: PlannedRun, index: int, folder: SuiteFolder) -> "SuiteRun":
    from inferometer_cli.result_file import REPORT_NAME
    from inferometer_results.compare.outputs import computation_of
    from inferometer_results.suites.view import SuiteRun

    outcome = folder.outcomes[index]
    document = folder.documents.get(run.name)
    included = (("cell", run.cell.included),) if run.cell.included else ()
    return SuiteRun(
        run.name,
        (*included, *run.cell.values),
        run.block.system.name,
        run.block.repeat,
        run.role,
        outcome.state,
        outcome.problem,
        figures_of(outcome.scenarios),
        "" if document is None else f"{run.name}/{REPORT_NAME}",
        "" if document is None else ", ".join(computation_of(document).engine),
    )
