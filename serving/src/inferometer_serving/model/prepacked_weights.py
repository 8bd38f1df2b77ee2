"""Models whose weights were prepacked for one kind of machine: their mark, and its check."""

import hashlib
import platform
from pathlib import Path

import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile

_CPU_FACTS = Path("/proc/cpuinfo")
_OF_KERNELS = (
    *("avx", "amx", "sse", "fma", "f16c"),
    *("asimd", "sve", "sme", "bf16", "i8mm", "fphp"),
)
"""How flags of a CPU begin that choose its kernels: others come and go with the system."""
_MARK = "inferometer.prepacked_for"
"""The entry of a model's metadata with the kind of machine."""


def machine_kind() -> str:
    """Return a name for CPUs and engines that can read each other's prepacked weights."""
    lines = _CPU_FACTS.read_text().splitlines() if _CPU_FACTS.exists() else []
    model = {each for each in lines if each.startswith("model name")}
    flags = {
        flag
        for each in lines
        if each.startswith(("flags", "Features"))
        for flag in each.partition(":")[2].split()
        if flag.startswith(_OF_KERNELS)
    }
    text = "\n".join([platform.machine(), *sorted(model), *sorted(flags)])
    return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-ort{onnxruntime.__version__}"


def mark_prepacked(path: Path) -> None:
    """Write into a model with prepacked weights that they are for machines of this kind."""
    model = onnx.load(path, load_external_data=False)
    remove_mark(model)
    model.metadata_props.add(key=_MARK, value=machine_kind())
    path.write_bytes(model.SerializeToString())


def remove_mark(model: onnx.ModelProto) -> None:
    """Remove the mark of a model whose other forms are written."""
    kept = [each for each in model.metadata_props if each.key != _MARK]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)


def check_prepacked(graph: GraphFile) -> None:
    """Raise ModelRefusedError if a model's weights were prepacked for another kind of machine.

    ONNX Runtime would take their bytes as they are.
    """
    for entry in graph.model.metadata_props:
        if entry.key == _MARK and entry.value != (own := machine_kind()):
            raise ModelRefusedError(
                f"The weights of the model {graph.path} were prepacked for machines of the kind "
                f"{entry.value}, and this is {own}: write this form again on a machine of this "
                "kind with inferometer cache MODEL --write FOLDER, or serve the model with weights "
                "as external data."
            )
