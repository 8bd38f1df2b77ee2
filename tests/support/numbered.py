"""Numbers queries, so that a test knows each of them at the oracle.

Servers may take up queries of one moment in another order than they were sent.
"""

from pathlib import Path

import numpy as np

from support.oracle_http import WIDTH
from support.oracle_process import Integers, Seen

QUERIES = 8192
"""More than any step sends, so that no number comes twice."""
NUMBERED = {"inputs": {"file": {"uri": "file:numbered.npz"}}}
"""Fields of `load`, to be used with the file that `numbered_file` writes."""
_TRIED = 3
"""Queries that are sent before all others, on a connection of their own."""


def numbered_file(folder: Path) -> str:
    """Write inputs of which the k-th sample is k, and return the file's path."""
    path = folder / "numbered.npz"
    numbers = np.arange(QUERIES, dtype=np.float32)
    np.savez(path, x=np.column_stack([numbers] * WIDTH))
    return str(path)


def query_places(seen: Seen) -> Integers:
    """Return where in `seen` the first, second, ... query is: the warm-up's, then the window's."""
    places: Integers = _TRIED + np.argsort(seen.number[_TRIED:])
    assert (seen.number[places] == np.arange(len(places))).all()
    return places
