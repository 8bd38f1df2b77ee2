"""A process that has imported the operator, and forks one for each request.

It reads lines of JSON with the words, the environment and the log of an operator, and answers each
with a process ID. A start then costs a few milliseconds instead of the second of the imports. It
writes the exit code of each to the file that its request names.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

from inferometer_operator import __main__ as operator
from inferometer_operator import command as _command  # noqa: F401 - what is slow to import
from inferometer_operator.reconcile import faults, node_wait

_UNSCHEDULED_SECONDS, _RETRY_SECONDS = 3, 2


def main() -> None:
    """Fork until standard input ends."""
    exit_files: dict[int, Path] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _write_exit_codes(exit_files))
    for line in sys.stdin:
        request = json.loads(line)
        exit_file = Path(request.pop("exit_file"))
        # Not before its file is known.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            _become_operator(**request)
        exit_files[child] = exit_file
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def _write_exit_codes(exit_files: dict[int, Path]) -> None:
    while exit_files:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        exit_files.pop(pid).write_text(f"{os.waitstatus_to_exitcode(status)}\n")


def _become_operator(
    words: list[str], environment: dict[str, str], log: str, *, impatient: bool
) -> None:
    """Run an operator until it ends; an impatient one gives up and retries after seconds."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
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
