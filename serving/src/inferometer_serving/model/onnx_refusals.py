"""Refusals of models that ONNX Runtime cannot open: its errors, with what to do."""

import re

import onnxruntime  # type: ignore[import-untyped]  # ships no types

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.options import Device

_MISSING_OPERATOR = (
    re.compile(r"No Op registered for (?P<name>\S+)"),
    re.compile(r"Fatal error: (?P<name>\S+?)\(-?\d+\) is not a registered function/op"),
)
_NO_KERNEL = re.compile(r"Could not find an implementation for (?P<name>\S+?)\((?P<opset>\d+)\)")
_NEWER_OPSET = re.compile(
    r"Opset (?P<found>\d+) is under development.* for domain (?P<domain>\S+) is till opset "
    r"(?P<most>\d+)",
    re.DOTALL,
)
_NEWER_IR = re.compile(
    r"Unsupported model IR version: (?P<found>\d+), max supported IR version: (?P<most>\d+)"
)


def refusal(graph: GraphFile, device: Device, error: Exception) -> ModelRefusedError:
    """Return what an error of ONNX Runtime at the opening of a model means, and the remedy."""
    version = onnxruntime.__version__
    reason = str(error).partition(" : ")[2].strip() or str(error)
    operator = _missing_operator(reason)
    if operator is not None:
        return ModelRefusedError(
            f"The model {graph.path} uses the operator {operator}, which ONNX Runtime {version} "
            f"does not have on {device}: {_remedy_for_operator(operator)}"
        )
    if lacking := _NO_KERNEL.search(reason):
        return ModelRefusedError(
            f"The model {graph.path} uses the operator {lacking['name']} of opset "
            f"{lacking['opset']}, which ONNX Runtime {version} does not have on {device} for the "
            "types of its tensors: export the model for a newer opset, with other types, or "
            "without that operator."
        )
    if "Missing opset in the model" in reason:
        return ModelRefusedError(
            f"The model {graph.path} does not say which opset it uses: export it again, or add "
            "its opset_import."
        )
    if newer := _NEWER_OPSET.search(reason):
        return ModelRefusedError(
            f"The model {graph.path} uses opset {newer['found']} of {newer['domain']}, and ONNX "
            f"Runtime {version} supports up to {newer['most']}: export the model for opset "
            f"{newer['most']} or lower."
        )
    if newer := _NEWER_IR.search(reason):
        return ModelRefusedError(
            f"The model {graph.path} has IR version {newer['found']}, and ONNX Runtime {version} "
            f"supports up to {newer['most']}: save it with ir_version {newer['most']} or lower."
        )
    brief = " ".join(reason.rpartition(" : ")[2].split())[:400]
    return ModelRefusedError(
        f"The model {graph.path} cannot be opened by ONNX Runtime {version}: {brief}"
    )


def _remedy_for_operator(operator: str) -> str:
    domain = operator.rpartition(":")[0]
    if domain in {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}:
        return "use another model or export it without that operator."
    return (
        f"it is a custom operator of {domain}, and libraries of custom operators cannot be loaded. "
        "Export the model without it."
    )


def _missing_operator(reason: str) -> str | None:
    for pattern in _MISSING_OPERATOR:
        found = pattern.search(reason)
        if found:
            return found["name"]
    return None
