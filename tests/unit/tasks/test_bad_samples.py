"""One bad sample fails by itself: it is named, and the others go on."""

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from inferometer_api.manifest.input_steps import Decode
from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.spec.reading import parse_document
from inferometer_tasks.assets import Assets
from inferometer_tasks.datasets.dataset import UnreadableSample, open_dataset
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.table import METRICS
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.sample import Detections, Mask, Sample
from inferometer_tasks.steps import image
from support.digits import MANIFEST

GOOD = {"text": "good", "label": 1}
DEEP = "[" * 100_000 + "]" * 100_000


def a_huge_png(side: int = 50_000) -> bytes:
    """Return the file of an image that claims `side` x `side` pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    file = io.BytesIO(b"\x89PNG\r\n\x1a\n")
    file.seek(0, io.SEEK_END)
    file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b""))
    return file.getvalue()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"file": "a\0b"}, "names no file"),
        ({"file": "\ud800"}, "names no file"),
        ({"file": "loop"}, "loop"),
        ({"file": "a" * 300}, "cannot be read"),
        ({"values": DEEP}, "not a list of numbers"),
        ({"text": "x", "label": "mask:huge.png"}, "mask cannot be decoded"),
        ({"text": "x", "label": "mask:cut.png"}, "mask cannot be decoded"),
        ({"text": "x", "label": "mask:a\0b"}, "names no file"),
        ({"text": "x", "label": "mask:floats.tiff"}, "an image of floats"),
    ],
)
def test_a_row_that_cannot_be_read_fails_alone(
    row: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """The rows around it are read."""
    (tmp_path / "huge.png").write_bytes(a_huge_png())
    (tmp_path / "cut.png").write_bytes(a_huge_png()[:30])
    (tmp_path / "loop").symlink_to("loop")
    Image.fromarray(np.array([[1.5]], np.float32)).save(tmp_path / "floats.tiff")
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (GOOD, row, GOOD)))
    first, bad, last = open_dataset("file:x", path, tmp_path).read()
    assert isinstance(first, Sample)
    assert isinstance(last, Sample)
    assert isinstance(bad, UnreadableSample)
    assert words in bad.message


@pytest.mark.parametrize(
    ("side", "clause"),
    [
        # Pillow warns of this one,
        (12_000, "has 12000 x 12000 pixels, and at most 100,000,000 are decoded."),
        # and does not open this one.
        (50_000, "cannot be decoded: it has more than 100,000,000 pixels."),
    ],
)
def test_an_image_of_too_many_pixels_is_named_with_our_limit(
    side: int, clause: str, tmp_path: Path
) -> None:
    """Whether it is a sample or a mask, and whatever limits Pillow has."""
    with pytest.raises(SampleError) as failed:
        image.decode(Decode(), a_huge_png(side))
    assert str(failed.value) == f"The image {clause}"
    (tmp_path / "huge.png").write_bytes(a_huge_png(side))
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps({"text": "x", "label": "mask:huge.png"}))
    (bad,) = open_dataset("file:x", path, tmp_path).read()
    assert isinstance(bad, UnreadableSample)
    assert bad.message == f"Its mask {clause}"


def test_a_row_nested_too_deep_is_refused_with_its_line(tmp_path: Path) -> None:
    """Before anything is sent."""
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(GOOD) + f'\n{{"values": {DEEP}}}\n')
    with pytest.raises(TaskRefusedError, match="Line 2 of"):
        open_dataset("file:x", path, tmp_path)


@pytest.mark.parametrize(
    "label",
    [
        [{"box": [0, 0, 4, 4], "class": float("inf")}],
        [{"box": [0, 0, 4, 10**400], "class": 1}],
        [{"box": [0, 0, 4, float("inf")], "class": 1}],
        [{"box": [float("nan"), 0, 4, 4], "class": 1}],
        DEEP,
    ],
)
def test_a_label_of_boxes_beyond_any_image_makes_its_sample_fail(label: Any) -> None:
    """Nothing of it is counted."""
    metric = METRICS["MAP"]()
    none = Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    with pytest.raises(SampleError):
        metric.add(none, label)
    assert metric.result() is None


@pytest.mark.parametrize(
    ("metric", "prediction"), [("MSE", np.zeros(1)), ("MeanIoU", Mask(np.zeros(1, np.int64)))]
)
def test_a_label_nested_too_deep_makes_its_sample_fail(metric: str, prediction: Any) -> None:
    """Its parser gives up, not the run."""
    with pytest.raises(SampleError, match="not a list of numbers"):
        METRICS[metric]().add(prediction, DEEP)


@pytest.mark.parametrize("label", ["[1.5, 0]", "[NaN, 0]", "[Infinity, 0]"])
def test_a_mask_of_fractions_makes_its_sample_fail(label: str) -> None:
    """They are not cut to the class below."""
    metric, mask = METRICS["MeanIoU"](), Mask(np.array([1, 0]))
    with pytest.raises(SampleError):
        metric.add(mask, label)
    assert metric.result() is None
    metric.add(mask, "[1.0, 0.0]")
    value = metric.result()
    assert value is not None
    assert value.value == 1


def test_steps_on_numbers_refuse_an_output_of_texts(tmp_path: Path) -> None:
    """The manifest does not fit the model, whatever the sample."""
    texts = np.array([b"cat", b"dog"], object)
    manifest = parse_document(MANIFEST, ModelManifest, source="model.yaml")
    pipeline = TaskPipeline(manifest, Assets(manifest, tmp_path))
    with pytest.raises(TaskRefusedError, match=r"takes numbers, but the output .* has texts"):
        pipeline.prediction({pipeline.prediction_output: texts}, Sample("1", np.zeros(64)))
    with pytest.raises(TaskRefusedError, match="the model's output has texts"):
        METRICS["MSE"]().add(texts, [1, 2])


def test_a_text_of_half_a_character_fails_alone(tmp_path: Path) -> None:
    """JSON can state halves of surrogate pairs, and UTF-8 cannot."""
    text = MANIFEST.replace("modality: Values", "modality: Text")
    begin, end = text.index("    steps:"), text.index("outputs:")
    manifest = parse_document(text[:begin] + text[end:], ModelManifest, source="model.yaml")
    pipeline = TaskPipeline(manifest, Assets(manifest, tmp_path))
    with pytest.raises(SampleError, match="cannot be written as UTF-8"):
        pipeline.inputs(Sample("1", "half \ud800"))
