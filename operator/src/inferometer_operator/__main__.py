"""Entry point of the container: handles SIGTERM before the slow imports.

The kernel ignores SIGTERM for a container's first process without a handler, and the imports take a
second. An operator that missed it could win the Lease and then be killed with it.
"""

import os
import signal
import sys


def main() -> int:
    """Run the operator until SIGTERM; return the exit code."""
    # Nothing has begun that needs cleanup.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    from inferometer_operator import command  # noqa: PLC0415 - only now, since it takes so long

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
