"""Handwritten digits as small colour photographs, and a net that reads digit and tint.

It made the files of `examples/18-pitfalls`: `python -m support.tinted_digits FOLDER`, in `tests`.

The classes are 0 to 9 in a warm tint and 10 to 19 in a cold one. A fine pattern lies over each
image, which averages out if the image is made smaller with care.
"""

import csv
import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from support.digits import HELD_OUT, Floats, digits

SIDE, SCALED, FILTERS, CLASSES = 64, 16, 16, 20
SAMPLES = 200
_GRID = SCALED - 2
_WARM, _COLD = np.array([235, 130, 70]), np.array([70, 130, 235])
_DATASET = """\
apiVersion: inferometer.dev/v1alpha1
kind: DatasetManifest
name: tinted-digits
version: 1.0.0
license: CC-BY-4.0
description: Handwritten digits (E. Alpaydin, UCI) in two tints, as JPEG.
samples: samples.csv
classes: 20
"""


def photographs(seed: int = 5) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Return a JPEG and the class of each digit."""
    images, labels = digits()
    random = np.random.default_rng(seed)
    cold = random.integers(0, 2, len(images)).astype(bool)
    pattern = 55 * (np.indices((SIDE, SIDE)).sum(axis=0) % 2 * 2 - 1)
    files = []
    for image, is_cold in zip(images, cold, strict=True):
        light = np.kron(image, np.ones((SIDE // 8, SIDE // 8)))[:, :, None]
        tint = _COLD if is_cold else _WARM
        pixels = 60 + light * (tint - 60) + random.normal(0, 12, (SIDE, SIDE, 3))
        file = io.BytesIO()
        pixels = np.clip(pixels + pattern[:, :, None], 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(file, "JPEG", quality=80, subsampling=0)
        files.append(file.getvalue())
    return files, labels + 10 * cold


def prepared(file: bytes) -> Floats:
    """Return the input of a photograph as the manifest's right steps make it."""
    with Image.open(io.BytesIO(file)) as opened:
        scaled = opened.convert("RGB").resize((SCALED, SCALED), Image.Resampling.BILINEAR)
    pixels: Floats = np.asarray(scaled).astype(np.float32)
    unit = pixels / np.float32(255)
    return ((unit - np.float32(0.5)) / np.float32(0.25)).transpose(2, 0, 1)


def trained(seed: int = 3, rounds: int = 25, rate: float = 0.05) -> list[Floats]:
    """Return filters, bias, dense weights and their bias, trained on all but the first samples."""
    files, labels = photographs()
    inputs = np.stack([prepared(each) for each in files[HELD_OUT:]])
    wanted = labels[HELD_OUT:]
    random = np.random.default_rng(seed)
    weights: list[Floats] = [
        random.normal(0, 0.2, (FILTERS, 27)).astype(np.float32),
        np.zeros(FILTERS, np.float32),
        random.normal(0, 0.02, (FILTERS * (_GRID // 2) ** 2, CLASSES)).astype(np.float32),
        np.zeros(CLASSES, np.float32),
    ]
    momentum: list[Any] = [np.zeros_like(each) for each in weights]
    for _ in range(rounds):
        for chosen in np.array_split(random.permutation(len(inputs)), 42):
            gradients = _gradients(weights, inputs[chosen], wanted[chosen])
            momentum = [0.9 * m + g for m, g in zip(momentum, gradients, strict=True)]
            weights = [w - rate * m for w, m in zip(weights, momentum, strict=True)]
    return [each.astype(np.float32) for each in weights]


def _gradients(
    weights: list[Floats], inputs: Floats, labels: npt.NDArray[np.int64]
) -> list[npt.NDArray[Any]]:
    filters, bias, dense, dense_bias = weights
    count, half = len(inputs), _GRID // 2
    views = np.lib.stride_tricks.sliding_window_view(inputs, (3, 3), axis=(2, 3))
    patches = views.transpose(0, 2, 3, 1, 4, 5).reshape(count, _GRID * _GRID, 27)
    convolved = patches @ filters.T + bias
    grid = np.maximum(convolved, 0).reshape(count, half, 2, half, 2, FILTERS)
    pooled = grid.max(axis=(2, 4))
    flat = pooled.transpose(0, 3, 1, 2).reshape(count, -1)
    scores = flat @ dense + dense_bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = powers / powers.sum(axis=1, keepdims=True)
    error[np.arange(count), labels] -= 1
    error /= count
    back = (error @ dense.T).reshape(count, FILTERS, half, half).transpose(0, 2, 3, 1)
    winners = grid == pooled[:, :, None, :, None, :]
    spread = (winners * back[:, :, None, :, None, :]).reshape(convolved.shape) * (convolved > 0)
    return [
        np.einsum("nkf,nkp->fp", spread, patches, optimize=True),
        spread.sum(axis=(0, 1)),
        flat.T @ error,
        error.sum(axis=0),
    ]


def write_model(weights: list[Floats], path: Path) -> None:
    """Write the net as an ONNX file with the input image and the output scores."""
    names = ("filters", "bias", "dense", "dense_bias")
    weights = [weights[0].reshape(FILTERS, 3, 3, 3), *weights[1:]]
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
        "tinted",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, SCALED, SCALED])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES])],
        [numpy_helper.from_array(each, name) for name, each in zip(names, weights, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def write_dataset(path: Path) -> None:
    """Write the first samples, which the net has not seen, as a zip."""
    files, labels = photographs()
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(["file", "label"])
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(SAMPLES):
            archive.writestr(zipfile.ZipInfo(f"{number}.jpg"), files[number])
            writer.writerow([f"{number}.jpg", labels[number]])
        archive.writestr(zipfile.ZipInfo("samples.csv"), rows.getvalue())
        archive.writestr(zipfile.ZipInfo("dataset.yaml"), _DATASET)


if __name__ == "__main__":
    _folder = Path(sys.argv[1])
    write_model(trained(), _folder / "model.onnx")
    write_dataset(_folder / "data.zip")
