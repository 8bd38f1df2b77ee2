"""How does a command run here, and what is told when it fails?"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_TAIL_LINES = 40


class CommandError(Exception):
    """A command failed, or what it needs is not there; the text is a sentence."""


def say(sentence: str) -> None:
    """Tell a person what happens, at once."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def run(words: Sequence[str | Path], *, folder: Path | None = None) -> str:
    """Run a command and return its standard output; raises CommandError, quoting its last lines."""
    try:
        ended = subprocess.run(  # noqa: S603 - words of our own, without a shell
            words, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError as error:
        raise CommandError(f"'{words[0]}' is needed and not installed here.") from error
    if ended.returncode != 0:
        tail = (ended.stdout + ended.stderr).splitlines()[-_TAIL_LINES:]
        told = "\n    ".join(tail)
        command = " ".join(map(str, words))
        raise CommandError(f"This command ended with {ended.returncode}: {command}\n    {told}")
    return ended.stdout


def succeeds(words: Sequence[str | Path]) -> bool:
    """Return whether a command is there and ends with 0."""
    try:
        run(words)
    except CommandError:
        return False
    return True
