"""The task of a run: its manifest, or a plain one made of the model's tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.manifest.model_manifest import Framework, ManifestInput, ManifestOutput
from inferometer_api.manifest.model_manifest import ModelManifest as Manifest
from inferometer_api.manifest.output_steps import OutputStep, TopK
from inferometer_api.manifest.resolution import describe_frameworks, matching_framework
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.accuracy import ManifestInfo
from inferometer_loadgen.server.control_plane import ServerDescription
from inferometer_loadgen.server.servers import Servers
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.manifest_file import ManifestFile, read_manifest_file
from inferometer_tasks.model_check import check_labels, check_tensors
from inferometer_tasks.packages import check_packages
from inferometer_tasks.pipeline import TaskPipeline, step_names
from inferometer_tasks.python_steps import PythonSteps, check_allowed
from inferometer_tasks.served_steps import ServedSteps


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A manifest and its steps."""

    manifest: Manifest
    pipeline: TaskPipeline


def load_task(plan: LoadPlan, description: ServerDescription, metrics: Sequence[str]) -> ModelTask:
    """Return the task of a run, checked against its server; raises TaskRefusedError."""
    if plan.manifest_file is None:
        manifest = plain_manifest(description, metrics)
        check_packages(manifest, metrics)
        return ModelTask(manifest, TaskPipeline(manifest, Assets(manifest, Path())))
    file = read_manifest_file(Path(plan.manifest_file), plan.manifest_sha256)
    manifest = file.manifest
    check_packages(manifest, metrics)
    assets = Assets(manifest, file.path.parent)
    assets.check()
    _resolved(file, description)
    if "steps" in description.settings:
        return _served_task(manifest, assets, description)
    check_tensors(manifest, description.inputs, description.outputs)
    pipeline = TaskPipeline(manifest, assets)
    check_allowed(file, is_allowed=plan.allow_python_steps)
    if manifest.has_python:
        pipeline = PythonSteps(manifest, assets)
    check_labels(manifest, pipeline, description.outputs)
    return ModelTask(manifest, pipeline)


async def check_task(plan: LoadPlan) -> None:
    """Check the manifest of a run against the model of its server, which is ready.

    Raises TaskRefusedError if a scenario could not use them together, and what `Servers.describe`
    raises.
    """
    first, *_ = await Servers(plan).describe(lambda *_: None)
    for each in plan.run.spec.scenarios:
        if each.evaluated is not None:
            load_task(plan, first, each.evaluated.metrics)


def _served_task(manifest: Manifest, assets: Assets, description: ServerDescription) -> ModelTask:
    """Return the task whose steps the server runs."""
    served = description.settings["steps"]
    if served.split(",") != list(step_names(manifest)):
        raise TaskRefusedError(
            f"The server runs the steps {served}, but the manifest of {manifest.name} has "
            f"{','.join(step_names(manifest))}: give both the same manifest."
        )
    return ModelTask(manifest, ServedSteps(manifest, assets, description.outputs))


def manifest_info(plan: LoadPlan, description: ServerDescription) -> ManifestInfo | None:
    """Return the manifest of a run with its resolved engine; None if there is none.

    Raises TaskRefusedError if the server's engine does not satisfy its constraint, or if the server
    runs the steps of another manifest.
    """
    if plan.manifest_file is None:
        return None
    file = read_manifest_file(Path(plan.manifest_file), plan.manifest_sha256)
    return _resolved(file, description)


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
        frameworks=[Framework(name="any")],
        inputs=[ManifestInput(name=description.inputs[0].name)],
        outputs=[ManifestOutput(name=description.outputs[0].name, steps=steps)],
    )


def _resolved(file: ManifestFile, description: ServerDescription) -> ManifestInfo:
    """Return the resolved engine of a manifest; raises TaskRefusedError if it does not fit."""
    manifest = file.manifest
    # Both fetch it: without a checksum in the spec, it may have changed in between.
    served = description.settings.get("manifest_sha256", file.sha256)
    if served != file.sha256:
        raise TaskRefusedError(
            f"The server runs the steps of another manifest: its sha256 is {served}, that of the "
            f"load generator's {file.path} is {file.sha256}. Give both the same one; "
            "spec.model.manifest.sha256 refuses any other."
        )
    engine = description.settings.get("runtime", "")
    version = description.settings.get("runtime_version", "")
    framework = matching_framework(manifest, engine, _release(version))
    if engine and framework is None:
        raise TaskRefusedError(
            f"The manifest {file.path} needs {describe_frameworks(manifest)}, but the server has "
            f"{f'{engine} {version}'.strip()}: choose another server.runtime or image, or another "
            "manifest."
        )
    if framework is None and len(manifest.frameworks) == 1:
        framework = manifest.frameworks[0]
    return ManifestInfo(
        name=manifest.name,
        version=manifest.version,
        license=manifest.license,
        sha256=file.sha256,
        framework=framework.name if framework else describe_frameworks(manifest),
        framework_constraint=framework.version if framework else "",
        resolved_engine=engine,
        resolved_version=version,
    )


def _release(version: str) -> str:
    return version.partition("-")[0]
