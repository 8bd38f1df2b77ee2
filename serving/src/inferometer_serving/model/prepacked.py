"""Models whose weights were prepacked for one kind of machine: their mark, and its check."""

import hashlib
import platform
from pathlib import Path

import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile

_CPU_FACTS = Path("/proc/cpuinfo")
_MARK = "inferometer.prepacked_for"
"""The entry of a model's metadata with the kind of machine."""


def machine_kind() -> str:
    """Return a name for CPUs and engines that can read each other's prepacked weights."""
    lines = _CPU_FACTS.read_text().splitlines() if _CPU_FACTS.exists() else []
    facts = sorted({each for each in lines if each.startswith(("model name", "flags", "Features"))})
    text = "\n".join([platform.machine(), *facts])
    return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-ort{onnxruntime.__version__}"


def mark_prepacked(path: Path) -> None:
    """Write into a model with prepacked weights that they are for machines of this kind."""
    model = onnx.load(path, load_external_data=False)
    model.metadata_props.add(key=_MARK, value=machine_kind())
    path.write_bytes(model.SerializeToString())


def check_prepacked(graph: GraphFile) -> None:
    """Raise ModelRefusedError if a model's weights were prepacked for another kind of machine.

    ONNX Runtime would take their bytes as they are.
    """
    own = machine_kind()
    for entry in graph.model.metadata_props:
        if entry.key == _MARK and entry.value != own:
            raise ModelRefusedError(
                f"The weights of the model {graph.path} were prepacked for machines of the kind "
                f"{entry.value}, and this is {own}: write this form again on a machine of this "
                "kind with inferometer cache MODEL --write FOLDER, or serve the model with weights as external "
                "data."
            )
