"""The node agent's process, which handles SIGTERM from its first line on.

The kernel hides the signal from a container's first process until a handler is installed, and the
other modules take a moment to import.
"""

import os
import signal
import sys


def main() -> int:
    """Serve samples until a signal ends the process; return the exit code."""
    # Nothing is begun that would have to be tidied up.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    # It speaks no TLS, and aiohttp would read every certificate of the machine at its import.
    os.environ["SSL_CERT_FILE"] = os.devnull
    from inferometer_telemetry import command  # noqa: PLC0415 - only now, since it takes so long

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
