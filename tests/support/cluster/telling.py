"""How does the harness tell a person what it does?"""

import sys


def say(sentence: str) -> None:
    """Write a sentence to standard error at once."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()
