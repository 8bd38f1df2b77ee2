"""One measurement from a command: progress on the terminal, and signals that end it."""

import asyncio
import signal
from contextlib import nullcontext
from pathlib import Path

from inferometer_api.metrics.definitions import run_labels
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import ExitCode, StopSignal, exit_code_of_signal
from inferometer_cli.local.prometheus_targets import PrometheusTargets
from inferometer_cli.local.run import RunOptions, run_locally
from inferometer_cli.progress import ProgressCallback, Warn, WebPage, show_progress
from inferometer_cli.terminal import error_console
from inferometer_cli.time_left import RemainingTime


def measure(
    run: BenchmarkRun,
    base: Path,
    ending: StopSignal,
    options: RunOptions | None = None,
    watch: ProgressCallback | None = None,
    warned: set[str] | None = None,
) -> ResultDocument:
    """Measure a resolved run, whose paths are relative to `base`, until it or a signal ends it.

    Without `options`, nothing beyond the run itself is requested. Progress goes to `watch`, or to
    standard error. With `warned`, what the user was warned of in earlier runs, a warning appears
    once in a series.
    """
    chosen = options or RunOptions(PrometheusTargets(None, run_labels(run)[1]))

    async def execute() -> ResultDocument:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[Outcome] = loop.create_future()

        def end(number: signal.Signals) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set_result, _outcome_of(number))

        ending.notify(end)
        bars = show_progress(error_console(), RemainingTime(run), chosen.progress)
        with bars if watch is None else nullcontext(watch) as every_event:
            shown = every_event if warned is None else _warn_once(every_event, warned)
            return await run_locally(run, base=base, options=chosen, stopped=stopped, watch=shown)

    return asyncio.run(execute())


def _warn_once(watch: ProgressCallback, warned: set[str]) -> ProgressCallback:
    """Return a callback without the warnings whose first words were printed before."""

    def show(event: ProgressReport | WebPage | Warn | str) -> None:
        if isinstance(event, Warn):
            subject = event.text.partition(":")[0]
            if subject in warned:
                return
            warned.add(subject)
        watch(event)

    return show


def _outcome_of(number: signal.Signals) -> Outcome:
    if exit_code_of_signal(number) is ExitCode.INTERRUPTED:
        message = f"The run was interrupted ({number.name})."
        return Outcome(state="Interrupted", reason="Interrupted", message=message)
    message = f"The run was terminated ({number.name})."
    return Outcome(state="Terminated", reason="Terminated", message=message)
