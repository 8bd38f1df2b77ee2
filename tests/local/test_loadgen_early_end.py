"""A signal before the load generator can do anything ends it."""

import subprocess
import sys

_ENDED_WHILE_IT_IMPORTS = """
import os, signal, sys


class Ends:
    def find_spec(self, name, *_):
        if name == "inferometer_loadgen.command":
            os.kill(os.getpid(), signal.SIGTERM)


sys.meta_path.insert(0, Ends())
from inferometer_loadgen.__main__ import main

main()
"""


def test_a_load_generator_hears_sigterm_while_it_imports() -> None:
    """As a container's first process it would else never hear it, and be killed much later."""
    command = [sys.executable, "-c", _ENDED_WHILE_IT_IMPORTS]
    assert subprocess.run(command, check=False, timeout=60).returncode == 143
