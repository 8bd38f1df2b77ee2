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


def is_installed(local: LocalSupport) -> bool:
    """Return whether the program of a local server is installed."""
    package, executable = local.python_package, local.executable
    return (package is None or find_spec(package) is not None) and (
        executable is None or shutil.which(executable) is not None
    )


def check_installed(local: LocalSupport | None) -> None:
    """Raise RefusedError if the program of a local server is not installed."""
    if local is not None and not is_installed(local):
        raise RefusedError(
            f"{local.program} is not installed, and this command starts a server with it. "
            f"Install {local.installation}."
        )
