"""Choice of the model of each query of a mix: a function of seed, weights and stream alone."""

from collections.abc import Iterator, Sequence

import numpy as np

from inferometer_loadgen.schedule.arrivals import BLOCK, Stream, generator


def model_choices(
    shares: Sequence[float], seed: int, stream: Stream, server: int = 0
) -> Iterator[int]:
    """Yield the index of the model of each query to one server, endlessly.

    Each is drawn by inversion from one uniform number of `generator(seed, Stream.MODELS, stream,
    server)`. `shares` add up to 1; warm-up and window have streams of their own.
    """
    random = generator(seed, Stream.MODELS, int(stream), server)
    bounds = np.cumsum(shares)[:-1]
    while True:
        yield from np.searchsorted(bounds, random.random(BLOCK), side="right").tolist()
