"""Pictures like photographs in size and content: soft shapes with grain, as JPEG.

It made the images of `examples/26-pipeline`: `python -m support.photographs FOLDER`, in `tests`.
The label of each is the answer of the example's model.
"""

import csv
import io
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from PIL import Image

from inferometer_fetch.built_in import write_model
from inferometer_models import zoo
from inferometer_tasks.assets import Assets
from inferometer_tasks.manifest_file import read_manifest
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.sample import Classes, Sample

COUNT, WIDTH, HEIGHT = 12, 640, 480
_DATASET = """\
apiVersion: inferometer.dev/v1alpha1
kind: DatasetManifest
name: soft-shapes
version: 1.0.0
license: CC0-1.0
description: Soft shapes with grain. The labels are the answers of mobilenet_v3_small of the zoo.
samples: samples.csv
classes: 1000
"""


def photographs(seed: int = 11) -> list[bytes]:
    """Return the JPEG files."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    files = []
    for _ in range(COUNT):
        pixels = np.ones((HEIGHT, WIDTH, 3), np.float32) * random.uniform(40, 200, 3)
        for _ in range(24):
            row, column = random.uniform(0, HEIGHT), random.uniform(0, WIDTH)
            size = random.uniform(15, 160)
            near = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * size**2))
            pixels += near[:, :, None] * (random.uniform(0, 255, 3) - pixels)
        pixels += random.normal(0, 4, (HEIGHT, WIDTH, 1))
        file = io.BytesIO()
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=75)
        files.append(file.getvalue())
    return files


def answers(files: list[bytes], manifest_file: Path, model_file: Path) -> list[int]:
    """Return the class that the model gives each image after the steps of the manifest."""
    manifest = read_manifest(manifest_file)
    steps = TaskPipeline(manifest, Assets(manifest, manifest_file.parent))
    session = onnxruntime.InferenceSession(str(model_file))
    found = []
    for each in files:
        sample = Sample("", each)
        inputs = {name: array[None] for name, array in steps.inputs(sample).items()}
        (scores,) = session.run(["output"], inputs)
        prediction = steps.prediction({"output": scores[0]}, sample)
        assert isinstance(prediction, Classes)
        found.append(prediction.best[0].index)
    return found


def write_dataset(path: Path, files: list[bytes], labels: list[int]) -> None:
    """Write images and labels as a zip."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(["file", "label"])
    with zipfile.ZipFile(path, "w") as archive:
        for number, (file, label) in enumerate(zip(files, labels, strict=True)):
            archive.writestr(zipfile.ZipInfo(f"{number}.jpg"), file)
            writer.writerow([f"{number}.jpg", label])
        archive.writestr(zipfile.ZipInfo("samples.csv"), rows.getvalue())
        archive.writestr(zipfile.ZipInfo("dataset.yaml"), _DATASET)


if __name__ == "__main__":
    _folder = Path(sys.argv[1])
    _files = photographs()
    with TemporaryDirectory() as _temporary:
        _entry = zoo.entry("classification/mobilenet_v3_small")
        _model = write_model(_entry, Path(_temporary, "model.onnx"))
        _labels = answers(_files, _folder / "model.yaml", _model)
    write_dataset(_folder / "photographs.zip", _files, _labels)
