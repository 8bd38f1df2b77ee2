"""Entry point of `python -m inferometer_loadgen`: handles SIGTERM before anything else.

The kernel does not deliver it to a container's first process without a handler, and the imports
that follow take half a second.
"""

import os
import signal
import sys


def main() -> int:
    """Run the load generator or a worker; return the exit code."""
    # Nothing is running yet that would need a cleanup.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    if sys.argv[1:2] == ["worker"]:
        # Locust patches the standard library for gevent: it must be imported first.
        from inferometer_loadgen.fleet import locust_bridge  # noqa: PLC0415 - see above

        return locust_bridge.run_worker(sys.argv[2:])
    from inferometer_loadgen import command  # noqa: PLC0415 - slow to import

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
