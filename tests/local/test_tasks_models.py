"""Real public models: text recognition and file types, with figures that a direct run confirms."""

import csv
import io
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # has no types
import openvino
import pytest
from PIL import Image, ImageDraw, ImageFont

from inferometer_api.results.accuracy import AccuracyResult
from inferometer_api.results.result import ResultDocument, nanoseconds_at
from support.digits import HELD_OUT, MANIFEST, digits, trained_net, write_onnx
from support.local_runs import Done, done
from support.task_models import file_type_model, text_recognition_model

ROOT = Path(__file__).parents[2]
WORDS = (
    "Inferometer", "measures", "latency", "and throughput", "of models", "on Kubernetes", "42 ms",
    "p99 = 17.5", "Hello, world!", "quick brown fox", "jumps over", "the lazy dog", "2026-11-24",
    "batch size 8", "ONNX Runtime", "energy per query", "bfloat16", "accuracy 98 %", "queue", "zoo",
)  # fmt: skip
RECOGNITION = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: pp-ocr-v4-recognition
version: 4.0.0
license: Apache-2.0
task: TextRecognition
framework: {name: onnxruntime, version: ">=1.20 <2"}
inputs:
- name: x
  modality: Image
  steps:
  - decode: {colorMode: BGR}
  - resize: {height: 48, method: BilinearNoAntialias}
  - normalize: {divideBy: 255, mean: [0.5], std: [0.5]}
  - layout: {order: CHW}
outputs:
- name: softmax_11.tmp_0
  steps:
  - ctc: {vocabulary: vocabulary.txt}
expectedOutputs:
- {sample: "0", prediction: Inferometer}
"""
FILE_TYPES = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: magika
version: 3.3.0
license: Apache-2.0
task: FileTypeDetection
framework: {name: onnxruntime, version: ^1.20}
inputs:
- name: bytes
  modality: File
  steps:
  - fileBytes: {begin: 1024, end: 1024, block: 4096, padding: 256}
outputs:
- name: target_label
  steps:
  - topK: {k: 5, labels: labels.txt}
"""
WARM_UP = {"inputs": {"random": {"shapes": {"x": [1, 3, 48, 320]}}}}
"""The shape that the server warms up with; each sample has its own width."""
DATASET = """\
apiVersion: inferometer.dev/v1alpha1
kind: DatasetManifest
name: made-here
version: 1.0.0
license: CC0-1.0
samples: samples.csv
"""


def a_dataset(folder: Path, rows: list[tuple[str, bytes, str]]) -> None:
    """Write a data set of files: name, content and label."""
    folder.mkdir()
    (folder / "dataset.yaml").write_text(DATASET)
    with (folder / "samples.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "file", "label"])
        for number, (name, content, label) in enumerate(rows):
            (folder / name).write_bytes(content)
            writer.writerow([number, name, label])


def rendered(text: str) -> bytes:
    """Return a PNG with a line of text."""
    font = ImageFont.load_default(size=30)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right - left) + 24, int(bottom - top) + 24), "white")
    ImageDraw.Draw(image).text((12 - left, 12 - top), text, font=font, fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def evaluated(folder: Path, metrics: list[str], **spec: Any) -> Done:
    """Evaluate the model in a folder on its data set."""
    accuracy = {"accuracy": {"dataset": {"uri": "file:data"}, "metrics": metrics}}
    return done(folder, accuracy, spec=spec, within_seconds=240)


def result_of(ended: Done) -> ResultDocument:
    """Return the result of a run that is complete."""
    assert ended.result is not None, ended.ended.stderr
    assert ended.result.outcome.state == "Complete", ended.result.outcome
    return ended.result


def accuracy_of(result: ResultDocument) -> AccuracyResult:
    """Return the measures of a result's last scenario."""
    accuracy = result.scenarios[-1].accuracy
    assert accuracy is not None
    return accuracy


def edits(one: str, other: str) -> int:
    """Return the edit distance by the table of Wagner and Fischer (1974)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def recognized(model: Path, images: list[bytes]) -> list[str]:
    """Return what the model reads, computed here with numpy and Pillow alone."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    characters = (model.parent / "vocabulary.txt").read_text().removesuffix("\n").split("\n")
    alphabet = ["", *characters, " "]
    texts = []
    for content in images:
        pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))[:, :, ::-1]
        height, width = pixels.shape[:2]
        wide = max(1, round(width * 48 / height))
        grid = [
            np.clip((np.arange(n) + 0.5) * size / n - 0.5, 0, size - 1)
            for n, size in ((48, height), (wide, width))
        ]
        low = [np.floor(each).astype(int) for each in grid]
        high = [np.minimum(a + 1, size - 1) for a, size in zip(low, (height, width), strict=True)]
        y, x = (grid[0] - low[0])[:, None, None], (grid[1] - low[1])[None, :, None]
        values = pixels.astype(float)
        scaled = (
            values[low[0]][:, low[1]] * (1 - y) * (1 - x)
            + values[low[0]][:, high[1]] * (1 - y) * x
            + values[high[0]][:, low[1]] * y * (1 - x)
            + values[high[0]][:, high[1]] * y * x
        )
        tensor = ((np.rint(scaled) / 255 - 0.5) / 0.5).astype(np.float32).transpose(2, 0, 1)
        (scores,) = session.run(None, {"x": tensor[None]})
        path = scores[0].argmax(axis=-1)
        kept = [p for p, before in zip(path, [-1, *path[:-1]], strict=True) if p != before]
        texts.append("".join(alphabet[each] for each in kept))
    return texts


def test_text_recognition_has_the_error_rate_that_a_direct_run_has(tmp_path: Path) -> None:
    """The character error rate on rendered lines is that of numpy, Pillow and ONNX Runtime alone.

    The model reads them well: below 10 %.
    """
    model = text_recognition_model(tmp_path)
    (tmp_path / "model.yaml").write_text(RECOGNITION)
    images = [rendered(text) for text in WORDS]
    a_dataset(
        tmp_path / "data",
        [(f"{i}.png", image, WORDS[i]) for i, image in enumerate(images)],
    )
    read = recognized(model, images)
    wanted = sum(edits(a, b) for a, b in zip(read, WORDS, strict=True)) / sum(map(len, WORDS))
    accuracy = accuracy_of(
        result_of(evaluated(tmp_path, ["CER", "WER", "ExactMatch"], load=WARM_UP))
    )
    figures = {each.metric: each for each in accuracy.figures}
    assert accuracy.processed == len(WORDS)
    assert figures["CER"].value == pytest.approx(wanted)
    assert wanted < 0.1
    assert figures["ExactMatch"].correct is not None
    assert (accuracy.expected_checked, accuracy.unexpected) == (1, [])


def test_file_types_are_detected_as_a_direct_run_detects_them(tmp_path: Path) -> None:
    """Files of this project: what magika's model says of each, and at least 9 of 10 right."""
    model = file_type_model(tmp_path)
    (tmp_path / "model.yaml").write_text(FILE_TYPES)
    kinds = {
        "python": sorted((ROOT / "crds/src/inferometer_api").rglob("*.py")),
        "markdown": sorted((ROOT / "docs/how-to").glob("*.md")),
        "png": sorted((ROOT / "docs/images").glob("*.png")),
        "yaml": sorted((ROOT / "examples").glob("*.yaml")),
        "toml": [ROOT / "pyproject.toml"],
        "json": [ROOT / "crds/result.schema.json"],
    }
    rows = [
        (f"{kind}-{i}", path.read_bytes(), kind)
        for kind, paths in kinds.items()
        for i, path in enumerate([p for p in paths if p.stat().st_size > 500][:10])
    ]
    a_dataset(tmp_path / "data", rows)
    labels = (tmp_path / "labels.txt").read_text().split()
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    right = 0
    for _, content, kind in rows:
        begin, end = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
        numbers = [*begin, *[256] * (1024 - len(begin)), *[256] * (1024 - len(end)), *end]
        (scores,) = session.run(None, {"bytes": np.array([numbers], np.int32)})
        right += labels[int(scores[0].argmax())] == kind
    accuracy = accuracy_of(result_of(evaluated(tmp_path, ["Top1", "Top5"])))
    assert accuracy.figures[0].correct == right >= 0.9 * len(rows)
    assert accuracy.processed == len(rows)


def test_a_quantized_variant_shows_its_loss_beside_its_speed(tmp_path: Path) -> None:
    """One run of each: latency and accuracy, equal to what ONNX Runtime predicts directly."""
    from onnxruntime.quantization import (  # type: ignore[import-untyped]  # noqa: PLC0415 - one test; it has no types
        QuantType,
        quantize_dynamic,
    )

    net = trained_net()
    images, labels = digits()
    images, labels = images[:HELD_OUT], labels[:HELD_OUT]
    found = {}
    for variant in ("fp32", "int8"):
        folder = tmp_path / variant
        folder.mkdir()
        write_onnx(net, folder / "model.onnx")
        if variant == "int8":
            (folder / "model.onnx").rename(folder / "fp32.onnx")
            quantize_dynamic(
                folder / "fp32.onnx", folder / "model.onnx", weight_type=QuantType.QInt8
            )
        (folder / "model.yaml").write_text(MANIFEST)
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
        )
        direct = [session.run(None, {"image": each[None, None]})[0][0] for each in images]
        right = int((np.argmax(direct, axis=1) == labels).sum())
        accuracy = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"]}
        result = result_of(
            done(folder, {"singleStream": {}}, {"accuracy": {**accuracy, "samples": HELD_OUT}})
        )
        assert accuracy_of(result).figures[0].correct == right
        latency = nanoseconds_at(result.scenarios[0].steps[0].latency, 50.0)
        assert latency is not None
        found[variant] = (right, latency)
    assert found["int8"][0] >= 0.9 * found["fp32"][0]  # it still works, and may lose some


@pytest.mark.parametrize(("precision", "hint"), [("FP32", "f32"), ("BF16", "bf16")])
def test_each_precision_of_openvino_shows_its_accuracy_beside_its_speed(
    precision: str, hint: str, tmp_path: Path
) -> None:
    """To the sample what OpenVINO predicts directly, at the precision that the result names."""
    core = openvino.Core()
    if precision not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip(f"OpenVINO does not compute in {precision} on this CPU")
    images, labels = digits()
    images, labels = images[:HELD_OUT], labels[:HELD_OUT]
    write_onnx(trained_net(), tmp_path / "model.onnx")
    copyfile(ROOT / "examples/17-accuracy/model.yaml", tmp_path / "model.yaml")
    net = core.compile_model(tmp_path / "model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": hint})
    direct = [net(each[None, None])[0][0] for each in images]
    right = int((np.argmax(direct, axis=1) == labels).sum())
    accuracy = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"], "samples": HELD_OUT}
    server = {"runtime": "OpenVino", "precision": precision}
    result = result_of(
        done(tmp_path, {"singleStream": {}}, {"accuracy": accuracy}, spec={"server": server})
    )
    assert result.environment is not None
    assert result.environment.server.settings["precision"] == precision
    assert accuracy_of(result).figures[0].correct == right >= 0.9 * HELD_OUT
    assert nanoseconds_at(result.scenarios[0].steps[0].latency, 50.0) is not None
