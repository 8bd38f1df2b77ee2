"""A small convolution net, trained here on the handwritten digits: its accuracy is known exactly.

Inputs are [samples, 1, 8, 8], values from 0 to 1. Numpy computes training and reference.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from inferometer_tasks.datasets.dataset import DIGITS, open_dataset
from inferometer_tasks.sample import Sample

Floats = npt.NDArray[np.float32]
HELD_OUT = 450
"""The first samples are for the test; the net is trained on the others."""
_FILTERS, _ROUNDS, _RATE = 16, 60, 0.1


@dataclass(frozen=True, slots=True)
class DigitsNet:
    """Weights of a 3 x 3 convolution, ReLU, 2 x 2 maximum, and one dense layer."""

    filters: Floats
    bias: Floats
    dense: Floats
    dense_bias: Floats

    def scores(self, images: Floats) -> Floats:
        """Return the scores [samples, 10] of images [samples, 8, 8]."""
        return _forward(self, images)[-1]


def digits() -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return all images, from 0 to 1, and their labels."""
    dataset = open_dataset(DIGITS, None, Path())
    samples = [each for each in dataset.read() if isinstance(each, Sample)]
    images = np.stack(
        [np.asarray(each.content).astype(np.float32) for each in samples]
    ) / np.float32(16)
    return images, np.array([each.label for each in samples])


def trained_net(seed: int = 7, rounds: int = _ROUNDS) -> DigitsNet:
    """Return the net trained on all samples but the first, by gradient descent with momentum."""
    images, labels = digits()
    images, labels = images[HELD_OUT:], labels[HELD_OUT:]
    random = np.random.default_rng(seed)
    net = DigitsNet(
        random.normal(0, 0.4, (_FILTERS, 9)).astype(np.float32),
        np.zeros(_FILTERS, np.float32),
        random.normal(0, 0.05, (_FILTERS * 9, 10)).astype(np.float32),
        np.zeros(10, np.float32),
    )
    momentum = [np.zeros_like(each) for each in _weights(net)]
    for _ in range(rounds):
        for chosen in np.array_split(random.permutation(len(images)), 20):
            gradients = _gradients(net, images[chosen], labels[chosen])
            momentum = [0.9 * m + g for m, g in zip(momentum, gradients, strict=True)]
            net = DigitsNet(*(w - _RATE * m for w, m in zip(_weights(net), momentum, strict=True)))
    return net


def _weights(net: DigitsNet) -> tuple[Floats, ...]:
    return net.filters, net.bias, net.dense, net.dense_bias


def _patches(images: Floats) -> Floats:
    views = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    return views.reshape(len(images), 36, 9)


def _forward(net: DigitsNet, images: Floats) -> tuple[Floats, ...]:
    convolved = _patches(images) @ net.filters.T + net.bias  # [n, 36, filters]
    grid = np.maximum(convolved, 0).reshape(len(images), 3, 2, 3, 2, -1)
    pooled = grid.max(axis=(2, 4))  # [n, 3, 3, filters]
    flat = pooled.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return convolved, grid, pooled, flat, flat @ net.dense + net.dense_bias


def _gradients(net: DigitsNet, images: Floats, labels: npt.NDArray[np.int64]) -> tuple[Floats, ...]:
    convolved, grid, pooled, flat, scores = _forward(net, images)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = powers / powers.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    back = (error @ net.dense.T).reshape(len(images), -1, 3, 3).transpose(0, 2, 3, 1)
    winners = grid == pooled[:, :, None, :, None, :]
    spread = (winners * back[:, :, None, :, None, :]).reshape(convolved.shape)
    spread = spread * (convolved > 0)
    filters = np.einsum("nkf,nkp->fp", spread, _patches(images))
    return filters, spread.sum(axis=(0, 1)), flat.T @ error, error.sum(axis=0)


def write_onnx(net: DigitsNet, path: Path) -> None:
    """Write the net as an ONNX file with the input image and the output scores."""
    tensors = {
        "filters": net.filters.reshape(-1, 1, 3, 3),
        "bias": net.bias,
        "dense": net.dense,
        "dense_bias": net.dense_bias,
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "filters", "bias"], ["convolved"]),
            helper.make_node("Relu", ["convolved"], ["positive"]),
            helper.make_node(
                "MaxPool", ["positive"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]
            ),
            helper.make_node("Flatten", ["pooled"], ["flat"]),
            helper.make_node("Gemm", ["flat", "dense", "dense_bias"], ["scores"]),
        ],
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(each, name) for name, each in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


MANIFEST = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: digits-net
version: 1.0.0
license: Apache-2.0
description: A small convolution net for handwritten digits.
task: ImageClassification
framework: {name: onnxruntime, version: ">=1.20 <2"}
inputs:
  - name: image
    modality: Values
    steps:
      - normalize: {divideBy: 16}
      - reshape: {shape: [1, 8, 8]}
outputs:
  - name: scores
    steps:
      - softmax: {}
      - topK: {k: 5, labels: labels.txt}
assets:
  - {path: labels.txt, text: "0\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n"}
systemRequirements: {cpus: 1, memory: 64Mi}
"""
