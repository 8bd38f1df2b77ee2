"""Simulated noise of machines: logarithms of the figures of runs in a row, and their resampling."""

from collections.abc import Callable

import numpy as np

Logarithms = np.ndarray[tuple[int], np.dtype[np.float64]]
Noise = Callable[[np.random.Generator, int], Logarithms]
"""Logarithms of the figures of so many runs in a row."""
CV = 0.03
SLOWER_NODE = np.log(1.1)
"""A machine that is 10 % slower."""


def independent(chance: np.random.Generator, runs: int) -> Logarithms:
    """Return runs that scatter by 3 %."""
    return chance.normal(0, CV, runs)


def autoregressive(chance: np.random.Generator, runs: int) -> Logarithms:
    """Return runs that scatter by 3 % of which each resembles the one before (0.6)."""
    noise = chance.normal(0, CV * 0.8, runs + 50)
    for at in range(1, len(noise)):
        noise[at] += 0.6 * noise[at - 1]
    return noise[50:]


def two_nodes(chance: np.random.Generator, runs: int) -> Logarithms:
    """Return runs of which 15 % are on a slower machine."""
    slower: Logarithms = SLOWER_NODE * (chance.random(runs) < 0.15)
    return independent(chance, runs) + slower


def sticky_node(chance: np.random.Generator, runs: int) -> Logarithms:
    """Return runs that change to a slower machine and back after about 20."""
    changes = chance.random(runs) < 1 / 20
    slower: Logarithms = SLOWER_NODE * (np.cumsum(changes) % 2)
    return independent(chance, runs) + slower


def processes(chance: np.random.Generator, runs: int) -> Logarithms:
    """Return runs that scatter from process to process by 2 to 20 %."""
    return chance.normal(0, chance.uniform(0.02, 0.2), runs)


ALL_NOISE = (independent, autoregressive, two_nodes, sticky_node, processes)


def resampled(
    series: Logarithms, runs: int, chance: np.random.Generator, *, block: int = 10
) -> Logarithms:
    """Return so many runs, put together from blocks of a series.

    A moving-block bootstrap (Kuensch, Annals of Statistics 17, 1989): within a block neighbours
    stay neighbours, so that what correlates still does.
    """
    block = min(block, len(series))
    starts = chance.integers(0, len(series) - block + 1, -(-runs // block))
    return np.concatenate([series[start : start + block] for start in starts])[:runs]
