"""Writes the forms of a model that load faster than one file with the weights inside."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.prepacked_weights import machine_kind, mark_prepacked, remove_mark
from inferometer_serving.model.session import EngineSettings

MODEL_FILE, WEIGHTS_FILE = "model.onnx", "model.onnx.data"
_ONE_FILE = "OneFile"
_LARGEST_FILE_BYTES = (1 << 31) - 1
"""The largest message of Protocol Buffers, which an ONNX file is."""
_LEAST_EXTERNAL_BYTES = 1024
"""Smaller tensors stay in the ONNX file."""


@dataclass(frozen=True, slots=True)
class ModelForm:
    """One way to keep and open a model."""

    name: str
    model: Path
    prepacking: bool = True
    graph_optimization: str = "All"


def write_forms(model: Path, folder: Path, *, threads: int) -> tuple[ModelForm, ...]:
    """Write the forms that a model can have below a folder; return them, the plain file first.

    The prepacked form fits this kind of CPU and this version of the engine alone; its folder is
    named after both, and servers elsewhere refuse it.
    """
    external = _write_external(model, folder / "external")
    prepacked = _write_prepacked(external, folder / f"prepacked-{machine_kind()}", threads)
    forms = (
        ModelForm("ExternalData", external),
        ModelForm("MemoryMapped", external, prepacking=False),
        # It is optimised already.
        ModelForm("SavedPrepacked", prepacked, graph_optimization="Disabled"),
    )
    if sum(each.stat().st_size for each in external.parent.iterdir()) > _LARGEST_FILE_BYTES:
        return forms
    return (ModelForm(_ONE_FILE, _write_inside(model, folder / "inside")), *forms)


def unavailable_forms(forms: Sequence[ModelForm]) -> dict[str, str]:
    """Return which forms of a model were not written, and why: a clause for each."""
    if any(each.name == _ONE_FILE for each in forms):
        return {}
    return {_ONE_FILE: "an ONNX file cannot have 2 GiB or more, and with its weights it has"}


def _unmarked(model: Path) -> onnx.ModelProto:
    read = onnx.load(model)
    remove_mark(read)
    return read


def _write_inside(model: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    onnx.save_model(_unmarked(model), folder / MODEL_FILE)
    return folder / MODEL_FILE


def _write_external(model: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    onnx.save_model(
        _unmarked(model),
        folder / MODEL_FILE,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=WEIGHTS_FILE,
        size_threshold=_LEAST_EXTERNAL_BYTES,
    )
    # onnx gives the file of the weights to its owner alone.
    if (weights := folder / WEIGHTS_FILE).exists():
        weights.chmod(stat.S_IMODE((folder / MODEL_FILE).stat().st_mode))
    return folder / MODEL_FILE


def _write_prepacked(external: Path, folder: Path, threads: int) -> Path:
    folder.mkdir(parents=True)
    options = session_options(EngineSettings(threads=threads))
    options.optimized_model_filepath = str(folder / MODEL_FILE)
    for entry, value in (
        ("session.optimized_model_external_initializers_file_name", WEIGHTS_FILE),
        (
            "session.optimized_model_external_initializers_min_size_in_bytes",
            str(_LEAST_EXTERNAL_BYTES),
        ),
        ("session.save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(entry, value)
    onnxruntime.InferenceSession(str(external), options, providers=["CPUExecutionProvider"])
    mark_prepacked(folder / MODEL_FILE)
    return folder / MODEL_FILE
