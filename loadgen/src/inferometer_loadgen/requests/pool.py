"""Which prepared requests does a step send in turn?"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from inferometer_api.results.result import Tensor
from inferometer_api.spec.load import Load
from inferometer_loadgen.requests.encode import Encoder
from inferometer_loadgen.requests.inputs import (
    FileSource,
    InputSource,
    RandomSource,
    fit_shapes,
    read_npz,
)
from inferometer_loadgen.wire import PreparedRequest, Target
from inferometer_loadgen.wire.connection import prepare


class InputSources:
    """Makes the sources of requests for any batch size of one run.

    Raises InputRefusedError where the inputs do not fit the model. A .npz file is read once.
    """

    def __init__(self, load: Load, file: str | None, tensors: list[Tensor]) -> None:
        self._load = load
        self._tensors = tensors
        self._file = None if file is None else Path(file)
        self._arrays = None if self._file is None else read_npz(self._file)

    def source(self, batch_size: int, seed: int | None = None) -> InputSource:
        """Return where the requests of this batch size come from; random ones by a seed."""
        if self._file is not None and self._arrays is not None:
            return FileSource(self._file, self._arrays, self._tensors, batch_size)
        random = self._load.inputs.random
        given = {} if random is None else random.shapes
        pool_size = 1 if random is None else random.pool_size
        shapes = fit_shapes(self._tensors, given, batch_size)
        return RandomSource(
            self._tensors, shapes, self._load.seed if seed is None else seed, pool_size
        )

    def note(self, source: InputSource, batch_size: int) -> str | None:
        """Return a sentence where a pool is smaller than was asked."""
        random = self._load.inputs.random
        asked = source.distinct if isinstance(source, FileSource) else 0
        if random is not None:
            asked = random.pool_size
        if source.count >= asked:
            return None
        return (
            f"The pool of requests of batch {batch_size} holds {source.count} instead of {asked}, "
            f"to stay below 256 MiB."
        )


async def make_pool(
    source: InputSource, encoder: Encoder, targets: Sequence[Target], told: Callable[[float], None]
) -> list[list[PreparedRequest]]:
    """Encode every request of a source once; return those to each target.

    `told` hears how far it is, and signals are heard meanwhile.
    """
    pools: list[list[PreparedRequest]] = [[] for _ in targets]
    for index in range(source.count):
        encoded = encoder.encode(source.request(index))
        for target, pool in zip(targets, pools, strict=True):
            # gRPC's bytes name no server: one copy does for all of them.
            is_copy = target.protocol == "GRPC" and pool is not pools[0]
            shared = len(targets) > 1
            pool.append(pools[0][-1] if is_copy else prepare(target, encoded, share_body=shared))
        told((index + 1) / source.count)
        await asyncio.sleep(0)
    return pools
