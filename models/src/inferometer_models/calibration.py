"""Chooses the scale of each weight of a light graph from the data that reach it.

Layer by layer, as layer-sequential unit-variance initialisation does (Mishkin and Matas, "All you
need is a good init", 2016): each kernel is scaled so that the output of its layer has the
standard deviation 1, with the layers before it as they were chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from inferometer_models.light import element_count, weights_of
from inferometer_models.node_runs import Array, NodeRun, constants, last_uses, multiplications
from inferometer_models.weights import SEED, Draw, FloatArray, noise, numbers

LEAST_DEVIATION, MOST_DEVIATION = 0.01, 100.0
"""Between these the standard deviation of each float tensor stays."""

_LOGITS = 2.0
"""Standard deviation of the input of a softmax over a product of two tensors (attention)."""
_MASKED_BELOW = 50.0
"""Logits so far below the largest of their row are masked: they have no weight."""
_LEAST_SEEN = 0.2
"""The share of a row that a mask leaves at least."""
_BRANCH = 0.5
"""Standard deviation of the output of a layer that is added to its residual stream."""
_PASSES = 6
_CLOSE = 0.1
"""So far the logarithm of that deviation may be off."""
_LINEAR = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "MatMul", "Where", "Cast", "Identity"),
        *("Reshape", "Transpose", "Slice", "Split", "Squeeze", "Unsqueeze", "Gather"),
    }
)
"""Operators through which a scale passes unchanged."""
_JITTER = 0.1
"""Spread of gains around 1 and of biases around 0."""
_KERNELS = {("Conv", 1), ("ConvTranspose", 1), ("Gemm", 1), ("MatMul", 0), ("MatMul", 1)}
_STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
_GAINS = {
    ("BatchNormalization", 1),
    ("LayerNormalization", 1),
    ("InstanceNormalization", 1),
    ("Mul", 0),
    ("Mul", 1),
    ("Div", 1),
}
_TABLES = {("Gather", 0), ("Concat", 0), ("Concat", 1), ("Expand", 0)}
"""Embeddings, and tokens that are put before others."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The weights that were chosen, and what the graph does with them."""

    draws: tuple[Draw, ...]
    """In the order of the file."""
    parameters: int
    macs: int
    """For a batch of 1."""
    deviations: Mapping[str, float]
    """The standard deviation of each float tensor that depends on the input; NaN if it is not
    finite everywhere."""

    @property
    def outliers(self) -> dict[str, float]:
        """Return the deviations that are not between the limits."""
        return {
            name: deviation
            for name, deviation in self.deviations.items()
            if not LEAST_DEVIATION <= deviation <= MOST_DEVIATION
        }


def calibrate(model: ModelProto, samples: Array) -> Calibration:
    """Choose the weights of a light graph for the input `samples`, whose first axis is the batch.

    Attention needs several passes: only the whole product shows the scale of its factors.
    """
    targets: dict[str, float] = {}
    for _ in range(_PASSES):
        run = _Pass(model, targets)
        run.through({model.graph.input[0].name: samples})
        if not run.retarget():
            break
    return Calibration(
        draws=tuple(run.draws[tensor.name] for tensor in weights_of(model)),
        parameters=run.parameters,
        macs=run.multiplications // samples.shape[0],
        deviations=run.deviations,
    )


@dataclass(slots=True)
class _Pass:
    """One run of the whole graph, which chooses each weight when its first node is reached."""

    model: ModelProto
    targets: dict[str, float]
    """Standard deviation that the output of a kernel's layer has to have, or the centre that a gain
    has to have, where that is not 1; by the name of the weight."""
    draws: dict[str, Draw] = field(default_factory=dict)
    deviations: dict[str, float] = field(default_factory=dict)
    parameters: int = 0
    multiplications: int = 0
    _noise: dict[str, FloatArray] = field(default_factory=dict)
    _arrays: dict[str, Array] = field(default_factory=dict)
    _varying: set[str] = field(default_factory=set)
    _logits: dict[str, float] = field(default_factory=dict)
    """Deviation of the inputs of each softmax within a row, which is all that it sees."""

    def through(self, inputs: dict[str, Array]) -> None:
        """Run the graph."""
        stream = np.random.Philox(key=SEED)
        for tensor in weights_of(self.model):
            drawn = noise(stream, element_count(tensor))
            self._noise[tensor.name] = drawn.reshape(tuple(tensor.dims))
        stored = constants(self.model)
        self._arrays = {name: numpy_helper.to_array(tensor) for name, tensor in stored.items()}
        self._arrays |= inputs
        self._varying = set(inputs)
        nodes = self.model.graph.node
        for node, spent in zip(nodes, last_uses(nodes), strict=True):
            self._step(node)
            for name in spent:
                self._arrays.pop(name, None)
                self._noise.pop(name, None)

    def _step(self, node: NodeProto) -> None:
        chosen = [
            (position, name)
            for position, name in enumerate(node.input)
            if name in self._noise and name not in self.draws
        ]
        for position, name in chosen:
            self._choose(name, self._first_draw(node, position, name))
            if (node.op_type, position) not in _STATISTICS:
                self.parameters += self._noise[name].size
        run = NodeRun(self.model, node, self._arrays)
        kernels = [name for position, name in chosen if (node.op_type, position) in _KERNELS]
        if kernels:
            self._scale(node, run, kernels[0])
            run = NodeRun(self.model, node, self._arrays)
        outputs = run.run()
        self._record(node, outputs)
        self._arrays |= outputs

    def _first_draw(self, node: NodeProto, position: int, name: str) -> Draw:
        """Return the draw of a weight by its role in the first node that takes it."""
        count, role = self._noise[name].size, (node.op_type, position)
        if role in _KERNELS:
            return Draw(count, 0, 1)
        if role in _STATISTICS:
            data = self._arrays[node.input[0]]
            middle = float(data.mean() if position == 3 else data.var())
            return Draw(count, _rounded(middle), _rounded(middle * _JITTER) if position == 4 else 0)
        if role in _GAINS:
            centre = self.targets.get(name, 1)
            return Draw(count, _rounded(centre), _rounded(centre * _JITTER))
        return Draw(count, 0, 1 if role in _TABLES or self._is_table(name) else _JITTER)

    def _is_table(self, name: str) -> bool:
        """Return whether an added weight differs from token to token, as a position embedding."""
        return sum(int(axis > 1) for axis in self._noise[name].shape) > 1

    def _choose(self, name: str, draw: Draw) -> None:
        self.draws[name] = draw
        self._arrays[name] = numbers(draw, self._noise[name])

    def _scale(self, node: NodeProto, run: NodeRun, kernel: str) -> None:
        """Scale a kernel so that the output of its layer has the deviation that it has to have."""
        if self._varying.isdisjoint(node.input):
            return
        plain = {
            name: np.zeros_like(self._arrays[name])
            for name in node.input[2:]
            if name in self._arrays
        }
        found = float(run.run(**plain)[node.output[0]].std(dtype=np.float64))
        target = self.targets.get(kernel, _BRANCH if self._is_added(node.output[0]) else 1)
        self._choose(kernel, Draw(self._noise[kernel].size, 0, _rounded(target / found)))

    def _is_added(self, name: str) -> bool:
        """Return whether a tensor is next added to one that was there before it."""
        users = [node for node in self.model.graph.node if name in node.input]
        if len(users) != 1 or users[0].op_type != "Add":
            return False
        other = next((each for each in users[0].input if each != name), name)
        if other in self._varying:
            return True
        return other in self._noise and self._is_added(users[0].output[0])

    def _record(self, node: NodeProto, outputs: Mapping[str, Array]) -> None:
        if node.op_type == "Shape" or self._varying.isdisjoint(node.input):
            return
        if node.op_type == "Softmax":
            self._logits[node.input[0]] = _deviation_of_rows(self._arrays[node.input[0]])
        self._varying |= set(outputs)
        for name, array in outputs.items():
            if array.dtype == np.float32 and array.size > 1:
                deviation = float(array.std(dtype=np.float64))
                self.deviations[name] = deviation if np.isfinite(array).all() else float("nan")
        first = outputs[node.output[0]]
        self.multiplications += multiplications(node, self._arrays, first)

    def retarget(self) -> bool:
        """Set targets so that the inputs of attention's softmax get their deviation next time.

        Return whether any is far from it now.
        """
        factors: dict[str, list[float]] = {}
        producers = {name: node for node in self.model.graph.node for name in node.output}
        for node in self.model.graph.node:
            if node.op_type == "Softmax" and node.input[0] in self._logits:
                missing = float(np.log(_LOGITS / self._logits[node.input[0]]))
                for name, share in self._shares(producers, node.input[0]).items():
                    factors.setdefault(name, []).append(share * missing)
        for name, logarithms in factors.items():
            factor = float(np.exp(max(logarithms)))  # of layers that share it, the flattest
            self.targets[name] = self.targets.get(name, 1) * factor
        return any(abs(max(logarithms)) > _CLOSE for logarithms in factors.values())

    def _shares(self, producers: Mapping[str, NodeProto], name: str) -> dict[str, float]:
        """Return the weights that scale a product of two tensors, and the power of each in it."""
        node = producers.get(name)
        if node is None or node.op_type not in _LINEAR or name not in self._varying:
            return {}
        weights = [each for each in node.input if each in self.draws]
        varying = [each for each in node.input if each in self._varying]
        if node.op_type == "Mul" and weights:
            return {weights[0]: 1}
        if node.op_type == "MatMul" and len(varying) == 2:
            return {
                kernel: 0.5
                for factor in varying
                for kernel in [self._kernel(producers, factor)]
                if kernel is not None
            }
        return self._shares(producers, varying[0])

    def _kernel(self, producers: Mapping[str, NodeProto], name: str) -> str | None:
        """Return the kernel of the layer that a tensor comes from without other layers between."""
        node = producers.get(name)
        if node is None or name not in self._varying:
            return None
        for position, weight in enumerate(node.input):
            if (node.op_type, position) in _KERNELS and weight in self.draws:
                return weight
        if node.op_type not in _LINEAR:
            return None
        return self._kernel(producers, next(each for each in node.input if each in self._varying))


def _deviation_of_rows(array: Array) -> float:
    """Return the usual deviation within the last axis, without masked entries."""
    logits = array.astype(np.float64)
    seen = logits >= logits.max(axis=-1, keepdims=True) - _MASKED_BELOW
    if np.median(seen.mean(axis=-1)) < _LEAST_SEEN:  # so few are none that a mask leaves
        seen[:] = True
    counts = seen.sum(axis=-1, keepdims=True)
    means = np.where(seen, logits, 0).sum(axis=-1, keepdims=True) / counts
    squares = np.where(seen, logits - means, 0) ** 2
    return float(np.median(np.sqrt(squares.sum(axis=-1, keepdims=True) / counts)))


def _rounded(number: float) -> float:
    """Round to the three digits that the index has."""
    return float(f"{number:.3g}")
