"""The task of a run: its manifest, or a plain one made of the model's tensors."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.manifest.model_manifest import Framework, ManifestInput, ManifestOutput
from inferometer_api.manifest.model_manifest import ModelManifest as Manifest
from inferometer_api.manifest.output_steps import OutputStep, TopK
from inferometer_api.manifest.version_constraint import ConstraintError, satisfies
from inferometer_api.results.accuracy import ManifestInfo
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.manifest_file import read_manifest
from inferometer_tasks.packages import check_packages
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.python_steps import PythonSteps


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A manifest and its steps."""

    manifest: Manifest
    pipeline: TaskPipeline


def load_task(
    manifest_file: str | None,
    description: ServerDescription,
    metrics: Sequence[str],
    *,
    allow_python: bool = False,
) -> ModelTask:
    """Return the task of a run, checked against its server; raises TaskRefusedError."""
    if manifest_file is None:
        manifest = plain_manifest(description, metrics)
        check_packages(manifest, metrics)
        return ModelTask(manifest, TaskPipeline(manifest, Assets(manifest, Path())))
    path = Path(manifest_file)
    manifest = read_manifest(path)
    check_packages(manifest, metrics)
    assets = Assets(manifest, path.parent)
    assets.check()
    _resolved(manifest, path, description)
    _check_tensors(manifest, description)
    pipeline = TaskPipeline(manifest, assets)
    if manifest.has_python:
        if not allow_python:
            raise TaskRefusedError(
                f"The manifest {path} has Python steps, which run only in local runs with "
                "--allow-python-steps: read them first, they may do anything that you may."
            )
        pipeline = PythonSteps(manifest, assets)
    _check_labels(manifest, pipeline, description)
    return ModelTask(manifest, pipeline)


def manifest_info(manifest_file: str | None, description: ServerDescription) -> ManifestInfo | None:
    """Return the manifest of a run with its resolved engine; None if there is none.

    Raises TaskRefusedError if the server's engine does not satisfy its constraint.
    """
    if manifest_file is None:
        return None
    path = Path(manifest_file)
    return _resolved(read_manifest(path), path, description)


def plain_manifest(description: ServerDescription, metrics: Sequence[str]) -> Manifest:
    """Return a manifest without steps but topK, if a measure needs the best classes."""
    best = max((int(each.removeprefix("Top")) for each in metrics if each[:3] == "Top"), default=0)
    steps = [OutputStep(top_k=TopK(k=best))] if best else []
    return Manifest(
        api_version="inferometer.dev/v1alpha1",
        kind="ModelManifest",
        name="model",
        version="0.0.0",
        license="not stated",
        framework=Framework(name="any"),
        inputs=[ManifestInput(name=description.inputs[0].name)],
        outputs=[ManifestOutput(name=description.outputs[0].name, steps=steps)],
    )


def _resolved(manifest: Manifest, path: Path, description: ServerDescription) -> ManifestInfo:
    """Return the resolved engine of a manifest; raises TaskRefusedError if it does not fit."""
    engine = description.settings.get("runtime", "")
    version = description.settings.get("runtime_version", "")
    framework = manifest.framework
    info = ManifestInfo(
        name=manifest.name,
        version=manifest.version,
        license=manifest.license,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        framework=framework.name,
        framework_constraint=framework.version,
        resolved_engine=engine,
        resolved_version=version,
    )
    if not engine:
        return info
    try:
        fits = engine.lower() == framework.name.lower() and satisfies(
            _release(version), framework.version
        )
    except ConstraintError as error:
        raise TaskRefusedError(str(error)) from error
    if not fits:
        raise TaskRefusedError(
            f"The manifest {path} needs {framework.name} {framework.version}, but the server has "
            f"{engine} {version}: choose another server.runtime or image, or another manifest."
        )
    return info


def _release(version: str) -> str:
    return version.partition("-")[0]


def _check_tensors(manifest: Manifest, description: ServerDescription) -> None:
    for what, named, tensors in (
        ("inputs", [each.name for each in manifest.inputs], description.inputs),
        ("outputs", [each.name for each in manifest.outputs], description.outputs),
    ):
        known = [each.name for each in tensors]
        unknown = [name for name in named if name not in known]
        if unknown and known:
            raise TaskRefusedError(
                f"The manifest names the {what} {unknown}, but the model has {known}."
            )


def _check_labels(
    manifest: Manifest, pipeline: TaskPipeline, description: ServerDescription
) -> None:
    """Raise TaskRefusedError if there are more or fewer labels than the output has classes."""
    labels = pipeline.labels
    shapes = {each.name: each.shape for each in description.outputs}
    shape = shapes.get(pipeline.prediction_output, [])
    if labels is None or not shape or shape[-1] < 0 or len(labels) == shape[-1]:
        return
    raise TaskRefusedError(
        f"The label file of {manifest.name} has {len(labels)} labels, but the output "
        f"{pipeline.prediction_output!r} distinguishes {shape[-1]} classes: use the labels that "
        "the model was trained with."
    )
