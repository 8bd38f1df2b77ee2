"""A model class of MLServer: runs an ONNX model with ONNX Runtime, and counts its time.

Over HTTP it also has the model's configuration and statistics, in the form of Triton's extensions.
"""

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import onnxruntime  # type: ignore[import-untyped]  # ships no types
from mlserver import MLModel  # type: ignore[import-not-found]  # MLServer's own environment
from mlserver.codecs import NumpyCodec  # type: ignore[import-not-found]
from mlserver.handlers.custom import (  # type: ignore[import-not-found]
    CustomHandler,
    register_custom_handler,
)
from mlserver.types import InferenceResponse, MetadataTensor  # type: ignore[import-not-found]
from mlserver.utils import get_model_uri  # type: ignore[import-not-found]

_TYPES = {
    "tensor(float)": "FP32",
    "tensor(float16)": "FP16",
    "tensor(double)": "FP64",
    "tensor(bool)": "BOOL",
    "tensor(string)": "BYTES",
    **{f"tensor(int{bits})": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"tensor(uint{bits})": f"UINT{bits}" for bits in (8, 16, 32, 64)},
}
_PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


class OnnxModel(MLModel):  # type: ignore[misc]  # MLServer is not installed where types are checked
    """One session, whose runs follow each other in a thread of their own."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self._nanoseconds = dict.fromkeys(_PARTS, 0)
        self._requests = 0
        self._instance_id = uuid.uuid4().hex
        self._session: Any = None
        self._thread = ThreadPoolExecutor(1)
        self._serve("config_document", "config", self._config)
        self._serve("statistics_document", "stats", self._statistics)

    async def load(self) -> bool:
        """Open the model, and describe its tensors."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.settings.parameters.extra["threads"]
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            await get_model_uri(self.settings), options, providers=["CPUExecutionProvider"]
        )
        # The metadata has it over gRPC too, where MLServer has no page for the configuration.
        self.settings.platform = f"onnxruntime {onnxruntime.__version__}"
        self.inputs = [_described(each) for each in self._session.get_inputs()]
        self.outputs = [_described(each) for each in self._session.get_outputs()]
        return True

    async def predict(self, payload: Any) -> Any:
        """Answer a request, or several that MLServer has joined."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._run, payload, perf_counter_ns())

    def _run(self, payload: Any, arrived_ns: int) -> Any:
        started_ns = perf_counter_ns()
        inputs = {each.name: NumpyCodec.decode_input(each) for each in payload.inputs}
        read_ns = perf_counter_ns()
        results = self._session.run(None, inputs)
        computed_ns = perf_counter_ns()
        names = (each.name for each in self._session.get_outputs())
        outputs = [
            NumpyCodec.encode_output(name, each) for name, each in zip(names, results, strict=True)
        ]
        moments = (arrived_ns, started_ns, read_ns, computed_ns, perf_counter_ns())
        for part, begin, end in zip(_PARTS, moments[:-1], moments[1:], strict=True):
            self._nanoseconds[part] += end - begin
        self._requests += 1
        return InferenceResponse(model_name=self.name, outputs=outputs)

    def _serve(self, method: str, path: str, answer: Any) -> None:
        """Add a page of the model; MLServer finds it among the attributes, by the method's name."""

        async def page() -> Any:
            return answer()

        page.__name__ = method
        route = f"/v2/models/{self.name}/{path}"
        register_custom_handler(CustomHandler(rest_path=route, rest_method="GET"), page)
        setattr(self, method, page)

    def _config(self) -> dict[str, Any]:
        options = self._session.get_session_options()
        facts = {
            "instance_id": self._instance_id,
            "runtime": "onnxruntime",
            "runtime_version": str(onnxruntime.__version__),
            "threads": str(options.intra_op_num_threads),
        }
        parameters = {f"inferometer.{name}": {"string_value": each} for name, each in facts.items()}
        return {"name": self.name, "platform": "onnx", "parameters": parameters}

    def _statistics(self) -> dict[str, Any]:
        count = self._requests
        parts = {part: {"count": count, "ns": ns} for part, ns in self._nanoseconds.items()}
        success = {"count": count, "ns": sum(self._nanoseconds.values())}
        stats = {"success": success, "fail": {"count": 0, "ns": 0}, **parts}
        model = {
            "name": self.name,
            "version": "",
            "inference_count": count,
            "execution_count": count,
            "inference_stats": stats,
        }
        return {"model_stats": [model]}


def _described(argument: Any) -> Any:
    axes = [each if isinstance(each, int) and each > 0 else -1 for each in argument.shape]
    return MetadataTensor(name=argument.name, datatype=_TYPES[argument.type], shape=axes)
