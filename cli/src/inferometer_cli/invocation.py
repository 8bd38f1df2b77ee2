"""By which name was the command line called?"""

import sys
from pathlib import Path

_PLUGIN = "kubectl-inferometer"


def program() -> str:
    """Return what a person types before a command: `inferometer`, or as kubectl's plugin."""
    return "kubectl inferometer" if Path(sys.argv[0]).name == _PLUGIN else "inferometer"
