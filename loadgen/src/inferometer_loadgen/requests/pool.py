"""Pools of prepared requests, and the inputs that they are made of."""

import asyncio
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from inferometer_api.results.result import Tensor
from inferometer_api.spec.load import Load
from inferometer_loadgen.input_files import InputFiles
from inferometer_loadgen.requests.encode import Encoder
from inferometer_loadgen.requests.inputs import (
    InputSource,
    RandomSource,
    fit_shapes,
)
from inferometer_loadgen.requests.npz_file import FileSource
from inferometer_loadgen.wire import PreparedRequest, RequestTarget
from inferometer_loadgen.wire.connection import prepare


class InputSources:
    """Makes the sources of requests for any batch size of one run.

    A file may lack `optional` inputs, which are then left out; `files` holds those that the run has
    read before. Raises InputRefusedError if the inputs do not fit the model.
    """

    def __init__(
        self,
        load: Load,
        file: str | None,
        tensors: Sequence[Tensor],
        optional: Sequence[str] = (),
        files: InputFiles | None = None,
    ) -> None:
        self.files = files or InputFiles()
        self._load = load
        self._file = None if file is None else Path(file)
        self._arrays = arrays = None if self._file is None else self.files.arrays(self._file)
        self._tensors = [
            tensor
            for tensor in tensors
            if arrays is None or tensor.name in arrays or tensor.name not in optional
        ]

    def shapes(self, batch_size: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input in a request of this batch size."""
        if self._file is not None and self._arrays is not None:
            request = FileSource(self._file, self._arrays, self._tensors, batch_size).request(0)
            return {name: array.shape for name, array in request.items()}
        random = self._load.inputs.random
        return fit_shapes(self._tensors, {} if random is None else random.shapes, batch_size)

    def source(self, batch_size: int, seed: int | None = None) -> InputSource:
        """Return the source of the requests of this batch size; the seed makes random inputs."""
        if self._file is not None and self._arrays is not None:
            return FileSource(self._file, self._arrays, self._tensors, batch_size)
        random = self._load.inputs.random
        return RandomSource(
            self._tensors,
            self.shapes(batch_size),
            self._load.seed if seed is None else seed,
            1 if random is None else random.pool_size,
        )

    def note(self, source: InputSource, batch_size: int) -> str | None:
        """Return a sentence if a pool is smaller than requested."""
        random = self._load.inputs.random
        wanted = source.distinct if isinstance(source, FileSource) else 0
        if random is not None:
            wanted = random.pool_size
        if source.count >= wanted:
            return None
        return (
            f"The pool of requests of batch {batch_size} holds {source.count} instead of {wanted}, "
            f"to stay below 256 MiB."
        )


def load_of_model(load: Load, tensors: Sequence[Tensor], names: AbstractSet[str]) -> Load:
    """Return the load with the shapes that one of several models of a server needs.

    `names` are those of the inputs of all models. An input that has no open axis but the batch
    keeps its own shape: another model may have an input of that name.
    """
    random = load.inputs.random
    if random is None or names == {tensor.name for tensor in tensors}:
        return load
    needed = {each.name for each in tensors if any(axis < 0 for axis in each.shape[1:])}
    shapes = {
        name: each for name, each in random.shapes.items() if name in needed or name not in names
    }
    inputs = load.inputs.model_copy(update={"random": random.model_copy(update={"shapes": shapes})})
    return load.model_copy(update={"inputs": inputs})


async def make_pool(
    source: InputSource,
    encoder: Encoder,
    targets: Sequence[RequestTarget],
    on_progress: Callable[[float], None],
) -> list[list[PreparedRequest]]:
    """Encode every request of a source once; return the requests to each target.

    `on_progress` receives the share that is done. Signals are handled meanwhile.
    """
    pools: list[list[PreparedRequest]] = [[] for _ in targets]
    for index in range(source.count):
        encoded = encoder.encode(source.request(index))
        for target, pool in zip(targets, pools, strict=True):
            # gRPC's bytes name no server: one copy does for all of them.
            is_copy = target.protocol == "GRPC" and pool is not pools[0]
            shared = len(targets) > 1
            pool.append(pools[0][-1] if is_copy else prepare(target, encoded, share_body=shared))
        on_progress((index + 1) / source.count)
        await asyncio.sleep(0)
    return pools
