"""Command line of the load generator: reads a plan, executes it, exits with its outcome."""

import argparse
import os
import resource
import sys
from pathlib import Path

import uvloop
from pydantic import ValidationError

from inferometer_api.plan.launch import FLEET_TOKEN_VARIABLE, worker_command
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.plan.reports import FinalReport
from inferometer_api.plan.result_folder import POD_INDEX_VARIABLE
from inferometer_api.results.result import Outcome
from inferometer_loadgen.local import MetricsAddress, execute_locally
from inferometer_loadgen.pod.execute import PodOutputs, execute_in_pod
from inferometer_loadgen.pod.result_folder import hold_lock
from inferometer_loadgen.reporting.report_writer import ReaderGoneError, ReportWriter
from inferometer_loadgen.run.execution import exit_code

_TERMINATION_LOG = Path("/dev/termination-log")
_HIGHEST_PORT = 65_535
_LOOPBACK = "127.0.0.1"


def main() -> int:
    """Read a plan, execute it, report the results and return the exit code."""
    arguments = _arguments()
    if arguments.results is not None:
        hold_lock(arguments.results)
    # Libraries that print must not corrupt the reports: their output goes to standard error.
    reports = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Thousands of connections are more than the soft limit that most shells begin with.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    plan = _plan(arguments.plan)
    if isinstance(plan, LoadPlan):
        _become_worker(plan)
    if arguments.listen is None:
        port = arguments.metrics_listen
        metrics_at = None if port is None else MetricsAddress(arguments.host or _LOOPBACK, port)
        return _report(plan, ReportWriter(reports), metrics_at)
    outputs = PodOutputs(
        arguments.host, arguments.listen, reports, arguments.termination_log, arguments.results
    )
    return exit_code(uvloop.run(execute_in_pod(plan, outputs)))


def _become_worker(plan: LoadPlan) -> None:
    """Replace this process by a worker if this is a pod of a fleet other than the first."""
    fleet, index = plan.fleet, os.environ.get(POD_INDEX_VARIABLE, "")
    if fleet is None or fleet.starts_workers or not index.isdecimal() or int(index) == 0:
        return
    command = worker_command(
        sys.executable,
        host=fleet.host,
        port=fleet.port,
        index=int(index) - 1,
        has_parent=False,
    )
    os.environ[FLEET_TOKEN_VARIABLE] = fleet.token
    # Locust patches the standard library for gevent, and must be the first that is imported.
    os.execv(command[0], command)  # noqa: S606 - our own command, and no shell


def _report(
    plan: LoadPlan | Outcome, reports: ReportWriter, metrics_at: MetricsAddress | None
) -> int:
    try:
        if isinstance(plan, Outcome):
            final = FinalReport(outcome=plan)
        else:
            final = uvloop.run(execute_locally(plan, reports, metrics_at))
        reports.add(final)
    except ReaderGoneError:
        sys.stderr.write("The reader of the reports is gone: the load generator ends.\n")
        return 1
    return exit_code(final.outcome)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_loadgen",
        description="Measures a server by a load plan. Writes one report in JSON a line; with "
        "--listen it answers GET /progress, GET /metrics and POST /stop instead, and writes the "
        "packed result.",
    )
    parser.add_argument(
        "--plan", metavar="FILE", type=Path, help="the load plan in JSON (default: standard input)"
    )
    ports = parser.add_mutually_exclusive_group()
    ports.add_argument(
        "--listen", metavar="PORT", type=_port, help="answer on this port; 0 takes a free one"
    )
    ports.add_argument(
        "--metrics-listen",
        metavar="PORT",
        type=_port,
        help="report on standard output, and answer GET /metrics on this port; 0 takes a free "
        "one, which the first report contains",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        help="listen at this address (default: at every one with --listen, else at 127.0.0.1)",
    )
    parser.add_argument(
        "--termination-log",
        metavar="FILE",
        type=Path,
        default=_TERMINATION_LOG,
        help="an existing file that takes the summary at the end, with --listen "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--results",
        metavar="FOLDER",
        type=Path,
        help="a folder that takes the whole result for an exporter, with --listen",
    )
    return parser.parse_args()


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {_HIGHEST_PORT}")
    return int(text)


def _plan(path: Path | None) -> LoadPlan | Outcome:
    where = "Standard input" if path is None else str(path)
    try:
        text = sys.stdin.buffer.read() if path is None else path.read_bytes()
        return LoadPlan.model_validate_json(text)
    except OSError as error:
        message = f"{where} cannot be read: {error.strerror}."
    except ValidationError as error:
        message = f"{where} is not a load plan: {error}"
    return Outcome(state="Refused", reason="InvalidPlan", message=message)
