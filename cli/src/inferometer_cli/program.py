"""The installed program: its name on the command line, its version, its inference runtime."""

import sys
from importlib.util import find_spec
from pathlib import Path

from inferometer_cli.exits import RefusedError

_PLUGIN = "kubectl-inferometer"


def program_name() -> str:
    """Return what the user types: `inferometer`, or `kubectl inferometer` for the plugin."""
    return "kubectl inferometer" if Path(sys.argv[0]).name == _PLUGIN else "inferometer"


def program_version() -> str:
    """Return the version of the installed distribution."""
    # The metadata reader takes longer to import than the rest of a short command.
    from importlib.metadata import version

    return version("inferometer")


def check_runtime() -> None:
    """Raise RefusedError if ONNX Runtime is not installed."""
    if find_spec("onnxruntime") is None:
        raise RefusedError(
            "ONNX Runtime is not installed, and this command starts a server with it. Install "
            "inferometer[cpu], or inferometer[gpu] on a machine with an NVIDIA GPU."
        )
