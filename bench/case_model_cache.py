"""The case model-cache: how fast a model loads from memory, and what its servers share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from onnx import TensorProto, helper, numpy_helper

from inferometer_serving.model_forms.forms import ModelForm, write_forms
from inferometer_serving.model_forms.measure import Probing, added_bytes, open_alone, write_tiny

_FORMS = ("OneFile", "ExternalData", "MemoryMapped", "SavedPrepacked")
_PRODUCTS, _CONVOLUTIONS = "matrix products", "convolutions"
_LOAD, _STEADY, _ADDED = "load", "steady latency", "memory of each further server"
_PROBING = Probing(threads=1, runs=10, servers=3)
_MS, _MIB = Unit(" ms", 1), Unit(" MiB", 1)


def _products(path: Path) -> int:
    """Write 5 products with 4,096 x 4,096 weights; return their bytes."""
    width, layers = 4096, 5
    weights = _weights([(width, width)] * layers)
    nodes = [
        helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"x{index + 1}"])
        for index in range(layers)
    ]
    return _save(path, nodes, weights, [1, width])


def _convolutions(path: Path) -> int:
    """Write 12 convolutions of 3 x 3 over 512 channels; return the bytes of their weights."""
    channels, layers = 512, 12
    weights = _weights([(channels, channels, 3, 3)] * layers)
    nodes = [
        helper.make_node("Conv", [f"x{index}", f"w{index}"], [f"x{index + 1}"], pads=[1, 1, 1, 1])
        for index in range(layers)
    ]
    return _save(path, nodes, weights, [1, channels, 14, 14])


def _weights(shapes: list[tuple[int, ...]]) -> list[onnx.TensorProto]:
    rng = np.random.default_rng(0)
    return [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32) * 0.02, f"w{index}")
        for index, shape in enumerate(shapes)
    ]


def _save(
    path: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], shape: list[int]
) -> int:
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name in ("x0", f"x{len(nodes)}")
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return sum(len(each.raw_data) for each in weights)


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    turns: dict[str, Turn] = {}
    tiny, _ = added_bytes(write_tiny(place.folder), _PROBING)
    for kind, write in ((_PRODUCTS, _products), (_CONVOLUTIONS, _convolutions)):
        model = place.folder / f"{kind}.onnx"
        write(model)
        for form in write_forms(model, place.folder / kind, threads=_PROBING.threads):
            side = f"{form.name}, {kind}"
            if side in sides:
                open_alone(form, _PROBING)  # its pages are in memory from now on
                turns[side] = partial(_turn, form, tiny)
    yield turns


def _turn(form: ModelForm, tiny_bytes: float) -> Figures:
    found = open_alone(form, _PROBING)
    added, _ = added_bytes(form, _PROBING)
    return {
        _LOAD: found["loadMilliseconds"],
        _STEADY: found["steadyMilliseconds"],
        _ADDED: (added - tiny_bytes) / 2**20,
    }


def _rows() -> Iterator[Row]:
    at_most = partial(Bound, sense="at most")
    for kind, share, weights_mib in ((_PRODUCTS, 0.02, 320), (_CONVOLUTIONS, 0.4, 108)):
        fast = "MemoryMapped" if kind == _PRODUCTS else "SavedPrepacked"
        for name in _FORMS[1:]:
            ours, plain = f"{name}, {kind}", f"OneFile, {kind}"
            is_goal = name == fast
            goals = (
                (_LOAD, _MS, (at_most(of="ratio", limit=share),)),
                (_STEADY, _MS, (at_most(of="ratio", limit=1.02),)),
                (_ADDED, _MIB, (at_most(of="figure", limit=weights_mib * 0.1),)),
            )
            for figure, unit, goal in goals:
                yield Row(
                    f"{name}, {kind}: {figure}",
                    Source(ours, figure),
                    unit,
                    Source(plain, figure),
                    goal if is_goal else (),
                )


MODEL_CACHE = Case(
    name="model-cache",
    title="How fast a model loads from a node's memory, and what its servers share",
    text="""\
Two models with real-size weights, 5 matrix products of 4,096 x 4,096 (320 MiB) and 12 convolutions
of 3 x 3 over 512 channels (108 MiB), in the four forms of `inferometer cache`. Every turn opens the
model in a fresh process with its pages in memory and runs it with a batch of 1 and one thread; then
three processes open it at once. *Memory of each further server* is the growth of PSS, less that of
a model without weights. The baseline is the same model in one file.

Goals: a load of matrix products at most 0.02 times the baseline's, one of convolutions at most
0.4 times, with steady latency within 2 %, and at most 10 % of the model's size for each further
server. TrIMS, which shares weights in GPU memory, reports loads 1.12 to 24 times as fast for small
models and 5 to 210 times for large ones.""",
    commands=(
        ".venv/bin/python bench/run.py --case model-cache",
        "",
        "# the same for a model of your own",
        "inferometer cache model.onnx",
    ),
    sides=tuple(Side(f"{name}, {kind}") for kind in (_PRODUCTS, _CONVOLUTIONS) for name in _FORMS),
    stage=_stage,
    rows=tuple(_rows()),
    minutes=4,
    repeats=5,
    is_pinned=False,
)
