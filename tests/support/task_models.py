"""Public models out of wheels of the package index, which bring model and vocabulary."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx

from support.requirements import cannot_run

_WHEELS = {
    "magika": (
        "magika==1.0.3",
        "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
    ),
    "rapidocr_onnxruntime": (
        "rapidocr-onnxruntime==1.4.4",
        "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
    ),
}
"""Requirement and checksum of the wheel, by the start of its file's name."""
_CACHE = Path(os.environ.get("INFEROMETER_CACHE", Path.home() / ".cache/inferometer")) / "wheels"


def _wheel(name: str) -> Path:
    """Return a wheel, downloaded once; the test cannot run without it."""
    requirement, sha256 = _WHEELS[name]
    _CACHE.mkdir(parents=True, exist_ok=True)
    found = next(_CACHE.glob(f"{name}-*.whl"), None)
    if found is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--dest", str(_CACHE), requirement]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        found = next(_CACHE.glob(f"{name}-*.whl"), None)
        if found is None:
            cannot_run(f"{requirement} could not be downloaded: {ended.stderr[-300:]}")
    assert hashlib.sha256(found.read_bytes()).hexdigest() == sha256, found
    return found


def text_recognition_model(folder: Path) -> Path:
    """Write PP-OCRv4's recognition model and its vocabulary; return the model."""
    with zipfile.ZipFile(_wheel("rapidocr_onnxruntime")) as wheel:
        content = wheel.read("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx")
    path = folder / "model.onnx"
    path.write_bytes(content)
    model = onnx.load_from_string(content)
    (characters,) = (each.value for each in model.metadata_props if each.key == "character")
    (folder / "vocabulary.txt").write_text(characters + "\n", encoding="utf-8")
    return path


def file_type_model(folder: Path) -> Path:
    """Write magika's model and its labels; return the model."""
    with zipfile.ZipFile(_wheel("magika")) as wheel:
        content = wheel.read("magika/models/standard_v3_3/model.onnx")
        config = json.loads(wheel.read("magika/models/standard_v3_3/config.min.json"))
    path = folder / "model.onnx"
    path.write_bytes(content)
    labels = config["target_labels_space"]
    (folder / "labels.txt").write_text("\n".join(labels) + "\n")
    return path
