"""Profiled sessions of ONNX Runtime."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.onnx_runtime import open_profiled
from inferometer_serving.model.session import EngineSettings
from inferometer_serving.profile.event_cost import event_cost
from inferometer_serving.profile.layer_times import EngineProfile
from inferometer_serving.profile.onnx_events import profile_of
from inferometer_serving.temporary_disk import disk_advice


class OnnxProfiledSession:
    """A session that writes its profile to a temporary folder."""

    def __init__(self, path: str, settings: EngineSettings) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="inferometer-profile-")
        self._session = open_profiled(path, settings, str(Path(self._folder.name) / "profile"))

    @property
    def start_ns(self) -> int:
        """What the profiler's clock showed at the start of the profile."""
        return int(self._session.get_profiling_start_time_ns())

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> None:
        """Infer once."""
        self._session.run(output_names, inputs)

    def events(self) -> Sequence[dict[str, Any]]:
        """End profiling, and return its events. Raises OSError, or ValueError if it is cut off."""
        with self._folder:
            found: list[dict[str, Any]] = orjson.loads(
                Path(self._session.end_profiling()).read_bytes()
            )
        return found

    def finish(self, runs: int) -> EngineProfile:
        """End profiling, and return the layers of the last `runs` runs."""
        try:
            cost = event_cost()
            found = profile_of(self.events(), runs, cost)
        except (OSError, ValueError, KeyError) as error:
            raise ModelRefusedError(
                f"ONNX Runtime's profile cannot be read: {error}. {disk_advice()}"
            ) from error
        note = (
            f"ONNX Runtime's profiler takes {cost.event_ns / 1000:.2f} µs within each layer, "
            f"{cost.tensor_ns / 1000:.2f} µs more for each input and output, and "
            f"{cost.axis_ns / 1000:.2f} µs for each of their axes. This is taken off, and within "
            f"loops and branches {cost.between_ns / 1000:.2f} µs after each layer."
        )
        return replace(found, notes=(*found.notes, note))

    def close(self) -> None:
        """Remove the temporary folder."""
        self._folder.cleanup()
