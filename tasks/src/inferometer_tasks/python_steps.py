"""Python steps of a manifest: local runs only, by an explicit option."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.manifest_file import ManifestFile
from inferometer_tasks.pipeline import StepTimes, TaskPipeline, Tensors
from inferometer_tasks.sample import Array, Classes, Prediction, Sample, ScoredClass
from inferometer_tasks.steps.tensor import DTYPES

_OF_FOREIGN_CODE = (Exception, SystemExit, KeyboardInterrupt)
"""Whatever it raises: sys.exit() of a script ends its sample, not the process that runs it."""


class PythonSteps(TaskPipeline):
    """Steps of which the manifest's own Python takes the place.

    `context` has `labels`, a function of an asset's path, and `label` and `context` of the sample.
    """

    def __init__(
        self, manifest: ModelManifest, assets: Assets, times: StepTimes | None = None
    ) -> None:
        super().__init__(manifest, assets, times)
        self._pre = _function(manifest.preprocess, "preprocess")
        self._post = _function(manifest.postprocess, "postprocess")
        self._lines = assets.lines

    @override
    def inputs(self, sample: Sample) -> Tensors:
        if self._pre is None:
            return super().inputs(sample)
        since = self.times.clock()
        self.times.current = "preprocess"
        found = _call(self._pre, "preprocess", self._context(sample), sample.content)
        self.times.add("preprocess", since)
        if not isinstance(found, Mapping):
            raise SampleError(
                f"preprocess returned {found!r:.100}: it must return the inputs by name, a dict of "
                "arrays."
            )
        return {str(name): np.asarray(array) for name, array in found.items()}

    @override
    def prediction(self, outputs: Mapping[str, Array], sample: Sample) -> Prediction:
        if self._post is None:
            return super().prediction(outputs, sample)
        since = self.times.clock()
        self.times.current = "postprocess"
        found = _call(self._post, "postprocess", self._context(sample), dict(outputs))
        self.times.add("postprocess", since)
        return prediction_of_python(found)

    def _context(self, sample: Sample) -> dict[str, Any]:
        return {"labels": self._lines, "context": sample.context}


def check_allowed(file: ManifestFile, *, is_allowed: bool) -> None:
    """Raise TaskRefusedError if a manifest has Python that may not run."""
    if file.manifest.has_python and not is_allowed:
        raise TaskRefusedError(
            f"The manifest {file.path} has Python steps, which run only in local runs with "
            "--allow-python-steps: read them first, they may do anything that you may."
        )


def prediction_of_python(found: Any) -> Prediction:
    """Return what `postprocess` returned as a prediction; raises SampleError if it is none."""
    if isinstance(found, str):
        return found
    try:
        array = np.asarray(found)
    except ValueError as error:  # rows of different lengths
        raise SampleError(f"postprocess returned no array: {str(error).rstrip('.')}.") from error
    is_number = array.dtype.kind in "biuf" or array.dtype == DTYPES["BF16"]
    if not is_number or (not array.ndim and array.dtype.kind == "b"):
        raise SampleError(
            f"postprocess returned {found!r:.100}: it must return a class's number, a text or an "
            "array of numbers."
        )
    if array.ndim or array.dtype.kind not in "iu":
        return array
    if array < 0:
        raise SampleError(f"postprocess returned the class {array}, but classes begin with 0.")
    return Classes((ScoredClass(int(array), 1.0),), None)


def _function(source: str | None, name: str) -> Callable[..., Any] | None:
    if source is None:
        return None
    names: dict[str, Any] = {"np": np}
    try:
        exec(compile(source, f"<{name}>", "exec"), names)  # noqa: S102 - the user allowed it
    except _OF_FOREIGN_CODE as error:
        raise TaskRefusedError(f"The Python of {name} cannot be loaded: {error!r}.") from error
    found = names.get(name)
    if not callable(found):
        raise TaskRefusedError(f"The Python of {name} defines no function {name}(context, data).")
    function: Callable[..., Any] = found
    return function


def _call(function: Callable[..., Any], name: str, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _OF_FOREIGN_CODE as error:
        raise SampleError(f"{name} failed: {error!r}.") from error
