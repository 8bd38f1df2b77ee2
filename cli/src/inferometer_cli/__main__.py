"""Entry point of `inferometer`: turns errors and signals into one sentence and an exit code.

Only light modules are imported here, so that signals are handled from the first moment.
"""

import contextlib
import os
import sys

from inferometer_cli.exits import ExitCode, FailedError, RefusedError, StoppedError, exit_on_signals
from inferometer_cli.program import program_name


def main() -> None:
    """Run the command line; print every error as one sentence."""
    exit_on_signals()
    try:
        from inferometer_cli.command_line import app

        app(prog_name=program_name())
    except StoppedError as ended:
        _print_error("interrupted." if ended.code == ExitCode.INTERRUPTED else "terminated.")
        raise
    except RefusedError as refusal:
        _print_error(str(refusal))
        sys.exit(ExitCode.REFUSED)
    except FailedError as fault:
        _print_error(str(fault))
        sys.exit(ExitCode.FAILED)
    except Exception as error:
        if os.environ.get("INFEROMETER_DEBUG"):
            raise
        _print_error(
            f"Internal error: {type(error).__name__}: {error}. "
            "Set INFEROMETER_DEBUG=1 for the traceback, and please report it."
        )
        sys.exit(ExitCode.FAILED)


def _print_error(sentence: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"inferometer: {sentence}\n")


if __name__ == "__main__":
    main()
