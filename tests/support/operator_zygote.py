"""A process that has imported the operator, and forks one for each request.

It reads lines of JSON with the words, the environment and the log of an operator, and answers each
with a process ID. A start then costs a few milliseconds instead of the second of the imports.
Its operators give up and retry runs without nodes after seconds: they are killed at each write of
such a run.
"""

import json
import os
import signal
import sys

from inferometer_operator import command
from inferometer_operator.reconcile import faults, node_wait

_UNSCHEDULED_SECONDS, _RETRY_SECONDS = 3, 2


def main() -> None:
    """Fork until standard input ends."""
    faults.__dict__["UNSCHEDULED_SECONDS"] = _UNSCHEDULED_SECONDS
    node_wait.__dict__["NODE_RETRY_SECONDS"] = _RETRY_SECONDS
    # The kernel forgets children that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become_operator(**request)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def _become_operator(words: list[str], environment: dict[str, str], log: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.update(environment)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, source in ((0, nothing), (1, file), (2, file)):
        os.dup2(source, number)
    os._exit(command.main(words))


if __name__ == "__main__":
    main()
