"""How does `inferometer` begin and end, whatever is asked of it?

Only what is light is imported here, so that a signal is heard well from the first moment.
"""

import contextlib
import os
import sys

from inferometer_cli.ending import EndedError, end_when_asked
from inferometer_cli.exits import Exit, FailedError, RefusedError
from inferometer_cli.invocation import program


def main() -> None:
    """Run the command line; every fault is one sentence and an exit code."""
    end_when_asked()
    try:
        from inferometer_cli.command_line import app

        app(prog_name=program())
    except EndedError as ended:
        _say("interrupted." if ended.code == Exit.INTERRUPTED else "terminated.")
        raise
    except RefusedError as refusal:
        _say(str(refusal))
        sys.exit(Exit.REFUSED)
    except FailedError as fault:
        _say(str(fault))
        sys.exit(Exit.FAILED)
    except Exception as error:
        if os.environ.get("INFEROMETER_DEBUG"):
            raise
        _say(
            f"Something went wrong that should not: {type(error).__name__}: {error}. "
            "Set INFEROMETER_DEBUG=1 to see where, and please report it."
        )
        sys.exit(Exit.FAILED)


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"inferometer: {sentence}\n")


if __name__ == "__main__":
    main()
