"""A model of Triton's Python back end: runs the model.onnx next to it with ONNX Runtime."""

import json
import os
import sys
from pathlib import Path
from typing import Any

# Triton's stub takes packages from the first python3 of the search path only.
sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]

import numpy as np  # noqa: E402 - found by the line above
import onnxruntime  # type: ignore[import-untyped]  # noqa: E402 - as above; ships no types
import triton_python_backend_utils as triton  # type: ignore[import-not-found]  # noqa: E402 - as above; Triton has it

_MODEL = Path(__file__).with_name("model.onnx")
_TYPES = {
    "tensor(float)": "TYPE_FP32",
    "tensor(float16)": "TYPE_FP16",
    "tensor(double)": "TYPE_FP64",
    "tensor(bool)": "TYPE_BOOL",
    "tensor(string)": "TYPE_STRING",
    **{f"tensor(int{bits})": f"TYPE_INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"tensor(uint{bits})": f"TYPE_UINT{bits}" for bits in (8, 16, 32, 64)},
}


class TritonPythonModel:
    """What Triton loads: one object for each instance."""

    _session: Any
    _outputs: list[str]
    _is_joined: bool

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """Add the model's inputs and outputs to its configuration."""
        session = _open(threads=1)
        # With a largest batch, Triton counts the first axis itself.
        skipped = 1 if config.as_dict()["max_batch_size"] > 0 else 0
        for each in session.get_inputs():
            config.add_input(_described(each, skipped))
        for each in session.get_outputs():
            config.add_output(_described(each, skipped))
        return config

    def initialize(self, arguments: dict[str, str]) -> None:
        """Open the model with the threads of the configuration."""
        config = json.loads(arguments["model_config"])
        self._is_joined = config["max_batch_size"] > 0
        self._session = _open(threads=int(config["parameters"]["threads"]["string_value"]))
        self._outputs = [each.name for each in self._session.get_outputs()]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer the requests that Triton has joined, by one run of the model if they are alike."""
        inputs = [_arrays(each, self._session) for each in requests]
        if len(requests) == 1 or not self._is_joined:
            return [self._answer(self._session.run(self._outputs, each)) for each in inputs]
        joined = {name: np.concatenate([each[name] for each in inputs]) for name in inputs[0]}
        results = self._session.run(self._outputs, joined)
        ends = np.cumsum([len(next(iter(each.values()))) for each in inputs])[:-1]
        parts = zip(*(np.split(result, ends) for result in results), strict=True)
        return [self._answer(part) for part in parts]

    def _answer(self, results: Any) -> Any:
        named = zip(self._outputs, results, strict=True)
        return triton.InferenceResponse([triton.Tensor(name, each) for name, each in named])


def _open(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(_MODEL), options, providers=["CPUExecutionProvider"])


def _described(argument: Any, skipped: int) -> dict[str, Any]:
    axes = [each if isinstance(each, int) and each > 0 else -1 for each in argument.shape]
    return {"name": argument.name, "data_type": _TYPES[argument.type], "dims": axes[skipped:]}


def _arrays(request: Any, session: Any) -> dict[str, Any]:
    names = (each.name for each in session.get_inputs())
    return {name: triton.get_input_tensor_by_name(request, name).as_numpy() for name in names}
