"""Profiled sessions of ONNX Runtime."""

import tempfile
from dataclasses import replace
from pathlib import Path

import onnxruntime  # type: ignore[import-untyped]  # ships no types
import orjson

from inferometer_models.errors import ModelRefusedError
from inferometer_models.graph_file import GraphFile
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.onnx_runtime import session_options
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.options import Device
from inferometer_serving.profile.event_cost import event_cost_ns
from inferometer_serving.profile.layer_times import EngineProfile
from inferometer_serving.profile.onnx_events import profile_of


class OnnxProfiledSession:
    """A session that writes its profile to a temporary folder."""

    def __init__(self, graph: GraphFile, settings: EngineSettings) -> None:
        if settings.device is not Device.CPU:
            raise ModelRefusedError(
                "A profile of a GPU was requested, which needs CUPTI: this version profiles CPUs. "
                "Set the device to CPU."
            )
        self._folder = tempfile.TemporaryDirectory(prefix="inferometer-profile-")
        options = session_options(settings)
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(self._folder.name) / "profile")
        self._session = onnxruntime.InferenceSession(
            str(graph.path), options, providers=["CPUExecutionProvider"]
        )

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> None:
        """Infer once."""
        self._session.run(output_names, inputs)

    def finish(self, runs: int) -> EngineProfile:
        """End profiling, and return the layers of the last `runs` runs."""
        with self._folder:
            file = Path(self._session.end_profiling())
            cost_ns = event_cost_ns()
            try:
                found = profile_of(orjson.loads(file.read_bytes()), runs, cost_ns)
            except (OSError, ValueError, KeyError) as error:
                raise ModelRefusedError(
                    f"ONNX Runtime's profile cannot be read: {error}. It was cut off if the disk "
                    "of the temporary folder is full."
                ) from error
        note = (
            f"ONNX Runtime's profiler takes {cost_ns / 1000:.2f} us within each layer, which is "
            "taken off."
        )
        return replace(found, notes=(*found.notes, note))
