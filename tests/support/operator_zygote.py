"""A process that has imported the operator, and forks one for each request.

It reads lines of JSON with the words, the environment and the log of an operator, and answers each
with a process ID. A start then costs a few milliseconds instead of the second of the imports. It
writes the exit code of each to the file that its request names.
"""

import json
import os
import selectors
import sys
import traceback
from pathlib import Path
from typing import Any

from inferometer_operator import __main__ as operator
from inferometer_operator import command as _command  # noqa: F401 - what is slow to import
from inferometer_operator.reconcile import faults, node_wait

_UNSCHEDULED_SECONDS, _RETRY_SECONDS = 3, 2


def main() -> None:
    """Fork, and report ends, until standard input ends.

    Ends are read from file descriptors of the processes: a signal could come just before a read
    that then blocks, and its handler would wait for the next request.
    """
    ends = selectors.DefaultSelector()
    requests = os.fdopen(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    ends.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in ends.select():
            if key.fileobj is not requests:
                ends.unregister(key.fileobj)
                _write_exit_code(key.fd, *key.data)
            elif line := requests.readline():
                _start(json.loads(line), ends)
            else:
                return


def _start(request: dict[str, Any], ends: selectors.BaseSelector) -> None:
    exit_file = Path(request.pop("exit_file"))
    child = os.fork()
    if child == 0:
        _become_operator(**request)
    ends.register(os.pidfd_open(child), selectors.EVENT_READ, (child, exit_file))
    sys.stdout.write(f"{child}\n")
    sys.stdout.flush()


def _write_exit_code(descriptor: int, child: int, exit_file: Path) -> None:
    os.close(descriptor)
    _, status = os.waitpid(child, 0)
    exit_file.write_text(f"{os.waitstatus_to_exitcode(status)}\n")


def _become_operator(
    words: list[str], environment: dict[str, str], log: str, *, impatient: bool
) -> None:
    """Run an operator until it ends; an impatient one gives up and retries after seconds."""
    code = 1
    try:
        if impatient:
            faults.__dict__["UNSCHEDULED_SECONDS"] = _UNSCHEDULED_SECONDS
            node_wait.__dict__["NODE_RETRY_SECONDS"] = _RETRY_SECONDS
        os.environ.update(environment)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, source in ((0, nothing), (1, file), (2, file)):
            os.dup2(source, number)
        sys.argv = ["inferometer_operator", *words]
        code = operator.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - the child must not go on as a second zygote
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
