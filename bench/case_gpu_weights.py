"""The case gpu-weights: how fast a model loads on a GPU that has its weights already."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import onnxruntime  # type: ignore[import-untyped]  # ships no types
from bench.case import Case, Figures, PeerMissingError, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.gpu_weights import GpuModel, hold, running_broker, write_models

from inferometer_serving.gpu.device import gpu_count

_MODELS = ("products", "convolutions", "feed-forward")
_LOAD, _COLD, _STEADY = "load", "load in a new process", "steady latency"
_ADDED = "GPU memory of a further server"


def _require() -> None:
    if not gpu_count():
        raise PeerMissingError("CUDA shows no GPU: install the extra gpu on a machine with one.")
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise PeerMissingError("ONNX Runtime has no CUDA here: install the extra gpu.")


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    # The folder around those of the repeats: the models are written once.
    models = write_models(place.folder.parent / "models")
    with running_broker(place.folder, "--quota", "4Gi"):
        turns: dict[str, Turn] = {}
        for model in models:
            with hold(model.path, place.folder, 1):
                pass  # its weights are in GPU memory from now on
            for way, folder in (("own", None), ("shared", place.folder)):
                turns[f"{way}, {model.name}"] = partial(_turn, model, folder)
        yield {side: turns[side] for side in sides}


def _turn(model: GpuModel, folder: Path | None) -> Figures:
    with hold(model.path, folder, 1, is_warm=True) as (first,):
        before = first.again()["freeBytes"]
        with hold(model.path, folder, 1) as (second,):
            added = before - first.again()["freeBytes"]
            return {
                _LOAD: first.report["loadMilliseconds"],
                _STEADY: first.report["steadyMilliseconds"],
                _COLD: second.report["loadMilliseconds"],
                _ADDED: added / 2**20,
            }


def _rows() -> Iterator[Row]:
    at_most = partial(Bound, of="ratio", sense="at most")
    milliseconds = Unit(" ms", 1)
    for name in _MODELS:
        for figure, unit, goal in (
            (_LOAD, milliseconds, (at_most(limit=0.2),)),
            (_COLD, milliseconds, ()),
            (_STEADY, Unit(" ms", 3), (at_most(limit=1.02),)),
            (_ADDED, Unit(" MiB", 0), ()),
        ):
            ours, plain = Source(f"shared, {name}", figure), Source(f"own, {name}", figure)
            yield Row(f"{name}: {figure}", ours, unit, plain, goal)


GPU_WEIGHTS = Case(
    name="gpu-weights",
    title="How fast a model loads on a GPU that has its weights already",
    text="""\
Three models with real-size weights as external data: 5 matrix products of 4,096 x 4,096 (320
MiB), 12 convolutions of 3 x 3 over 512 channels (108 MiB) and 12 feed-forward blocks of a
transformer of width 1,024 (384 MiB, 128 rows).

*own* copies the weights from the page cache to the GPU, *shared* maps the copy of the broker.
Every turn opens the model in a process whose CUDA is ready, and then in a second, new process,
whose load includes the start of CUDA's libraries. *GPU memory of a further server* is what the
second process takes, CUDA's context included.

Goals: a load of at most 0.2 times the one without sharing, and steady latency within 2 %. TrIMS
reports loads 1.12 to 24 times as fast for small models and 5 to 210 times for large ones.""",
    commands=(".venv/bin/python bench/run.py --case gpu-weights",),
    sides=tuple(Side(f"{way}, {name}", _require) for name in _MODELS for way in ("own", "shared")),
    stage=_stage,
    rows=tuple(_rows()),
    minutes=3,
    repeats=5,
    is_pinned=False,
)
