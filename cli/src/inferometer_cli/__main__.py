"""How does `inferometer` begin and end, whatever is asked of it?

Only what is light is imported here, so that a signal is heard well from the first moment.
"""

import contextlib
import os
import sys

from inferometer_cli.exits import ExitCode, FailedError, RefusedError, StoppedError, exit_on_signals
from inferometer_cli.program import program_name


def main() -> None:
    """Run the command line; every fault is one sentence and an exit code."""
    exit_on_signals()
    try:
        from inferometer_cli.command_line import app

        app(prog_name=program_name())
    except StoppedError as ended:
        _say("interrupted." if ended.code == ExitCode.INTERRUPTED else "terminated.")
        raise
    except RefusedError as refusal:
        _say(str(refusal))
        sys.exit(ExitCode.REFUSED)
    except FailedError as fault:
        _say(str(fault))
        sys.exit(ExitCode.FAILED)
    except Exception as error:
        if os.environ.get("INFEROMETER_DEBUG"):
            raise
        _say(
            f"Something went wrong that should not: {type(error).__name__}: {error}. "
            "Set INFEROMETER_DEBUG=1 to see where, and please report it."
        )
        sys.exit(ExitCode.FAILED)


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"inferometer: {sentence}\n")


if __name__ == "__main__":
    main()
