"""What does `python -m inferometer_operator` do first? It hears SIGTERM.

The kernel hides it from a container's first process while nobody handles it, and what comes next
takes a second to import. An operator that missed it could win the Lease, and be killed with it.
"""

import os
import signal
import sys


def main() -> int:
    """Run the operator until it is told to end; return its exit code."""
    # Nothing is begun that would have to be tidied up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    from inferometer_operator import command  # noqa: PLC0415 - only now, since it takes so long

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
