"""How does a test know each query of ours at the oracle: by the number that it sends?

Servers may take up queries of one moment in another order than they were sent.
"""

from pathlib import Path

import numpy as np

from support.oracle import WIDTH
from support.oracle_process import Integers, Seen

QUERIES = 8192
"""More than any step sends, so that no number comes twice."""
NUMBERED = {"inputs": {"file": {"uri": "file:numbered.npz"}}}
"""What to ask of `load`, beside the file that `numbered_file` writes."""
_TRIED = 3
"""Queries that are sent before all others, on a connection of their own."""


def numbered_file(folder: Path) -> str:
    """Write inputs of which the k-th sample is k, and return the file's path."""
    path = folder / "numbered.npz"
    numbers = np.arange(QUERIES, dtype=np.float32)
    np.savez(path, x=np.column_stack([numbers] * WIDTH))
    return str(path)


def window_places(seen: Seen, warm_up_queries: int) -> Integers:
    """Return where in `seen` the first, second, ... query of the window is."""
    numbers = seen.number - (warm_up_queries - _TRIED)
    within = np.flatnonzero((numbers >= 0) & (np.arange(len(seen)) >= _TRIED))
    places: Integers = within[np.argsort(numbers[within])]
    assert (numbers[places] == np.arange(len(seen) - warm_up_queries)).all()
    return places
