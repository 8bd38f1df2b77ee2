"""What does `python -m inferometer_loadgen` do: which plan does it read, how does it end?"""

import argparse
import asyncio
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import assert_never

import uvloop
from pydantic import ValidationError

from inferometer_api.plan import Ended, LoadPlan
from inferometer_api.result import Outcome
from inferometer_loadgen.report import ReaderGoneError, Reporter
from inferometer_loadgen.session import Session


def main() -> int:
    """Read a plan, carry it out, report line by line; return the exit code."""
    arguments = _arguments()
    # Libraries that print must not break the reports: they get standard error.
    reporter = Reporter(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # Thousands of connections are more than the soft limit that most shells begin with.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    try:
        plan = _plan(arguments.plan)
        outcome = plan if isinstance(plan, Outcome) else uvloop.run(carry_out(plan, reporter))
        reporter.tell(Ended(outcome=outcome))
    except ReaderGoneError:
        sys.stderr.write("Nobody reads the reports any more: the load generator ends.\n")
        return 1
    return exit_code(outcome)


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of an outcome; a verdict does not change it."""
    match outcome.state:
        case "Complete":
            return 0
        case "Failed":
            return 1
        case "Refused":
            return 2
        case "Interrupted":
            return 128 + signal.SIGINT
        case "Terminated":
            return 128 + signal.SIGTERM
        case _:
            assert_never(outcome.state)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_loadgen",
        description="Measures a server by a load plan. Writes one report in JSON a line.",
    )
    parser.add_argument(
        "--plan", metavar="FILE", type=Path, help="the load plan in JSON (default: standard input)"
    )
    return parser.parse_args()


def _plan(path: Path | None) -> LoadPlan | Outcome:
    where = "Standard input" if path is None else str(path)
    try:
        text = sys.stdin.buffer.read() if path is None else path.read_bytes()
        return LoadPlan.model_validate_json(text)
    except OSError as error:
        message = f"{where} cannot be read: {error.strerror}."
    except ValidationError as error:
        message = f"{where} is no load plan: {error}"
    return Outcome(state="Refused", reason="InvalidPlan", message=message)


async def carry_out(plan: LoadPlan, reporter: Reporter) -> Outcome:
    """Carry a plan out, heeding signals; return how it ended. Raises ReaderGoneError."""
    session = Session(plan, reporter)
    stopped: list[Outcome] = []

    def stop(outcome: Outcome) -> None:
        stopped.append(outcome)
        session.interrupt()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop, Outcome(state="Interrupted", reason="Interrupted"))
    loop.add_signal_handler(signal.SIGTERM, stop, Outcome(state="Terminated", reason="Terminated"))
    try:
        outcome = await session.run()
    except ReaderGoneError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever happened, the last report must say so
        traceback.print_exc()
        return Outcome(
            state="Failed",
            reason="InternalError",
            message=f"The load generator failed by a fault of its own: {error!r}.",
        )
    if stopped:
        return stopped[0]
    if outcome is None:
        raise ReaderGoneError("nobody reads the reports any more")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
