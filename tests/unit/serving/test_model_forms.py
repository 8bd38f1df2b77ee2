"""The constants that decide whether sharing a model pays are measured on this machine."""

from pathlib import Path

import pytest

from inferometer_serving.model_forms.forms import ModelForm
from inferometer_serving.model_forms.measure import sharing_constants
from inferometer_serving.node import storage
from inferometer_serving.node.samples import NotMeasurableError


def _a_form(folder: Path) -> ModelForm:
    file = folder / "model.onnx"
    file.write_bytes(bytes(1 << 16))
    return ModelForm("OneFile", file)


def test_constants_are_a_rate_and_two_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is the one of the folder, and nothing stays there."""
    monkeypatch.setattr(storage, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "resident_bytes", lambda _: 0)
    found = sharing_constants(_a_form(tmp_path), tmp_path)
    assert found.keys() == {"diskBytesPerSecond", "exportMilliseconds", "openMilliseconds"}
    assert all(float(each) > 0 for each in found.values())
    assert {each.name for each in tmp_path.iterdir()} == {"model.onnx"}


def test_a_folder_in_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constants are then not known, and the reason is."""

    def refuse(_: Path) -> None:
        raise NotMeasurableError("it is no disk")

    monkeypatch.setattr(storage, "_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "evict", refuse)
    assert sharing_constants(_a_form(tmp_path), tmp_path) == {"unavailable": "it is no disk"}
