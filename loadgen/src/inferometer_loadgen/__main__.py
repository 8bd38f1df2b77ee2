"""What does `python -m inferometer_loadgen` do first? It hears SIGTERM.

The kernel hides it from a container's first process while nobody handles it, and what comes next
takes half a second to import.
"""

import os
import signal
import sys


def main() -> int:
    """Carry out a plan; return the exit code."""
    # Nothing is begun that would have to be tidied up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    if sys.argv[1:2] == ["worker"]:
        # Locust patches the standard library for gevent: nothing may be imported before it.
        from inferometer_loadgen.fleet import locust_bridge  # noqa: PLC0415 - see above

        return locust_bridge.run_worker(sys.argv[2:])
    from inferometer_loadgen import command  # noqa: PLC0415 - only now, since it takes so long

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
