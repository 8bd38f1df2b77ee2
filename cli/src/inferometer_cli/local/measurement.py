"""One measurement from a command: progress on the terminal, and signals that end it."""

import asyncio
import signal
from pathlib import Path

from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import ExitCode, StopRequest, exit_code_of_signal
from inferometer_cli.local.run import RunOptions, run_locally
from inferometer_cli.progress import show_progress
from inferometer_cli.terminal import error_console
from inferometer_cli.time_left import RemainingTime


def measure(
    run: BenchmarkRun, base: Path, ending: StopRequest, options: RunOptions
) -> ResultDocument:
    """Measure a resolved run, whose paths are relative to `base`, until it or a signal ends it."""

    async def measured() -> ResultDocument:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[Outcome] = loop.create_future()

        def end(number: signal.Signals) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stopped.set_result, _outcome_of(number))

        ending.notify(end)
        remaining = RemainingTime(run)
        with show_progress(error_console(), remaining, options.progress) as watch:
            return await run_locally(run, base=base, options=options, stopped=stopped, watch=watch)

    return asyncio.run(measured())


def _outcome_of(number: signal.Signals) -> Outcome:
    if exit_code_of_signal(number) is ExitCode.INTERRUPTED:
        message = f"The run was interrupted ({number.name})."
        return Outcome(state="Interrupted", reason="Interrupted", message=message)
    message = f"The run was terminated ({number.name})."
    return Outcome(state="Terminated", reason="Terminated", message=message)
