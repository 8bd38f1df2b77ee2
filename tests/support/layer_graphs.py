"""Layer graphs and times of bricks that tests write down."""

from collections.abc import Mapping, Sequence

from inferometer_api.layers.graph import Layer, LayerGraph, LayerTensor, LayerUse
from inferometer_api.layers.timings import LayerTimings, MachineState, Timing

MACHINE = MachineState(
    name="a CPU",
    engines={"onnxruntime": "1.31.1", "openvino": "2026.4"},
    threads=1,
    cache_bytes=1_000_000,
    cache_bytes_per_second=100e9,
    memory_bytes_per_second=10e9,
)

Node = tuple[str, Sequence[int], Sequence[int]]
"""Operator, the numbers of the activations that it reads, and of those that it computes."""


def activation(*shape: int) -> LayerTensor:
    """Return an activation of fractions."""
    return LayerTensor(kind="Activation", datatype="FLOAT", shape=list(shape))


def layer_graph(
    *nodes: Node, model: str = "model", weights: Mapping[str, int] | None = None
) -> LayerGraph:
    """Return a graph whose layers are their operators; `weights` gives some of them floats."""
    layers, uses = {}, []
    for operator, reads, computes in nodes:
        inputs = [activation(1) for _ in reads]
        if weights and operator in weights:
            inputs.append(LayerTensor(kind="Weight", datatype="FLOAT", shape=[weights[operator]]))
        layers[operator] = Layer(
            operator=operator,
            version=17,
            inputs=inputs,
            outputs=[activation(1) for _ in computes],
        )
        uses.append(LayerUse(layer=operator, inputs=list(reads), outputs=list(computes)))
    return LayerGraph(
        model=model,
        model_sha256="0" * 64,
        engine="ONNX Runtime",
        engine_version="1.31.1",
        batch_size=1,
        layers=layers,
        uses=uses,
    )


def timing(nanoseconds: int, *, cold: int | None = None, session: int = 0) -> Timing:
    """Return the time of a brick that every round found alike."""
    return Timing(
        nanoseconds=nanoseconds,
        lower_quartile_nanoseconds=nanoseconds,
        upper_quartile_nanoseconds=nanoseconds,
        rounds=3,
        cold_nanoseconds=nanoseconds if cold is None else cold,
        runs=10,
        session_nanoseconds=session,
    )


def brick_timings(
    bricks: Mapping[str, Timing], models: Mapping[str, Timing] | None = None
) -> LayerTimings:
    """Return times of bricks on a machine whose call costs 100 ns and whose node costs 10 ns."""
    return LayerTimings(
        machine=MACHINE,
        run_nanoseconds=100,
        node_nanoseconds=10,
        seconds=1.0,
        bricks=dict(bricks),
        models=dict(models or {}),
    )
