"""The installed program: its name on the command line, its version, its inference runtime."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from inferometer_api.runtimes.descriptor import LocalSupport
from inferometer_cli.exits import RefusedError

_PLUGIN = "kubectl-inferometer"


def is_plugin() -> bool:
    """Return whether kubectl started the program, as its plugin."""
    return Path(sys.argv[0]).name == _PLUGIN


def program_name() -> str:
    """Return what the user types: `inferometer`, or `kubectl inferometer` for the plugin."""
    return "kubectl inferometer" if is_plugin() else "inferometer"


def program_version() -> str:
    """Return the version of the installed distribution."""
    # The metadata reader takes longer to import than the rest of a short command.
    from importlib.metadata import version

    return version("inferometer")


def check_installed(local: LocalSupport | None) -> None:
    """Raise RefusedError if the program of a local server is not installed."""
    if local is None:
        return
    package, executable = local.python_package, local.executable
    if (package is not None and find_spec(package) is None) or (
        executable is not None and shutil.which(executable) is None
    ):
        raise RefusedError(
            f"{local.program} is not installed, and this command starts a server with it. "
            f"Install {local.installation}."
        )
