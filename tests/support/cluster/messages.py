"""Messages of the harness to a person."""

import sys


def say(sentence: str) -> None:
    """Write a sentence to standard error at once."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
