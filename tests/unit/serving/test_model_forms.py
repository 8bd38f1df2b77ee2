"""The constants that decide whether sharing a model pays are measured on this machine."""

from pathlib import Path

import pytest

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import read_graph
from inferometer_serving.model import prepacked_weights
from inferometer_serving.model.onnx_runtime import load
from inferometer_serving.model.prepacked_weights import check_prepacked
from inferometer_serving.model.session import EngineSettings, Interrupt
from inferometer_serving.model_forms import forms
from inferometer_serving.model_forms.forms import ModelForm, unavailable_forms, write_forms
from inferometer_serving.model_forms.measure import sharing_constants
from inferometer_serving.node import storage
from inferometer_serving.node.samples import NotMeasurableError
from support import onnx_models


def _a_form(folder: Path) -> ModelForm:
    file = folder / "model.onnx"
    file.write_bytes(bytes(1 << 16))
    return ModelForm("OneFile", file)


@pytest.mark.parametrize(("largest_bytes", "has_one_file"), [(1 << 20, True), (100, False)])
def test_a_model_that_is_too_large_for_one_file_has_the_other_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest_bytes: int, *, has_one_file: bool
) -> None:
    """ONNX Runtime refuses a file of 2 GiB and more."""
    monkeypatch.setattr(forms, "_LARGEST_FILE_BYTES", largest_bytes)
    model = onnx_models.write_with_external_data(tmp_path)
    written = write_forms(model, tmp_path / "forms", threads=1)
    others = ["ExternalData", "MemoryMapped", "SavedPrepacked"]
    assert [each.name for each in written] == ["OneFile"] * has_one_file + others
    assert all(each.model.exists() for each in written)
    assert list(unavailable_forms(written)) == ["OneFile"] * (not has_one_file)


def test_all_files_of_a_form_have_the_same_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that may read a model may read its weights: a server has another user."""
    monkeypatch.setattr(forms, "_LEAST_EXTERNAL_BYTES", 1)
    model = onnx_models.write_with_external_data(tmp_path)
    _, external, *_ = written = write_forms(model, tmp_path / "forms", threads=1)
    assert len(list(external.model.parent.iterdir())) == 2
    for form in written:
        modes = {each.name: each.stat().st_mode & 0o777 for each in form.model.parent.iterdir()}
        assert set(modes.values()) == {form.model.stat().st_mode & 0o777}, modes


def test_prepacked_weights_of_another_kind_of_machine_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime would take their bytes as they are; those of the own kind are taken."""
    model = onnx_models.write_with_external_data(tmp_path)
    written = {each.name: each.model for each in write_forms(model, tmp_path / "forms", threads=1)}
    graphs = {name: read_graph(path, max_bytes=1 << 30) for name, path in written.items()}
    for each in graphs.values():
        check_prepacked(each)
    monkeypatch.setattr(prepacked_weights, "machine_kind", lambda: "another")
    check_prepacked(graphs["ExternalData"])
    again = write_forms(written["SavedPrepacked"], tmp_path / "again", threads=1)
    for form in again:  # one that is written anew has no older mark
        check_prepacked(read_graph(form.model, max_bytes=1 << 30))
    with pytest.raises(ModelRefusedError, match="and this is another: write this form again"):
        load(graphs["SavedPrepacked"], EngineSettings(threads=1), Interrupt())


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
