"""Conversion of MLModelScope's model manifests. Pure.

Every field either maps, or is named as not mapped with the reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from inferometer_tasks.errors import TaskRefusedError

_TASKS = {
    "classification": "ImageClassification",
    "boundingbox": "ObjectDetection",
    "semanticsegment": "SemanticSegmentation",
    "instancesegment": "InstanceSegmentation",
    "image": "ImageEnhancement",
}
_DATATYPES = {
    "float32": "FP32",
    "float32s": "FP32",
    "float16": "FP16",
    "float64": "FP64",
    "int64": "INT64",
    "int32": "INT32",
    "uint8": "UINT8",
    "string": "BYTES",
}
_LICENSES = {"Apache License, Version 2.0": "Apache-2.0", "MIT License": "MIT"}
_OUTPUTS = ("probabilities_layer", "boxes_layer", "classes_layer", "masks_layer")
_LABELS = "labels.txt"


@dataclass(slots=True)
class _Reader:
    """Reads fields of a mapping and remembers which were not."""

    data: dict[str, Any]
    where: str = ""
    read: set[str] = field(default_factory=set)

    def take(self, name: str) -> Any:
        """Return a field, None if it is absent, and count it as read."""
        self.read.add(name)
        return self.data.get(name)

    def part(self, name: str) -> "_Reader":
        """Return a reader of a member that is a mapping."""
        found = self.take(name)
        return _Reader(found if isinstance(found, dict) else {}, f"{self.where}{name}.")

    def left(self) -> Iterator[str]:
        """Yield the paths of the fields that were not read."""
        yield from (f"{self.where}{name}" for name in self.data if name not in self.read)


@dataclass(frozen=True, slots=True)
class Converted:
    """A manifest in our form, and what of the source is not in it."""

    manifest: dict[str, Any]
    mapped: tuple[str, ...]
    """Paths of fields that are in the manifest."""
    not_mapped: dict[str, str]
    """Why a field is not: a sentence without its period, by path."""


class _Conversion:
    """One conversion, with the notes that it makes on the way."""

    def __init__(self) -> None:
        self.not_mapped: dict[str, str] = {}
        self.mapped: list[str] = []

    def note(self, path: str, why: str) -> None:
        """Name a field that is not mapped."""
        self.not_mapped[path] = why

    def take(self, reader: _Reader, name: str) -> Any:
        """Return a field that maps."""
        found = reader.take(name)
        if name in reader.data:
            self.mapped.append(f"{reader.where}{name}")
        return found

    def finish(self, reader: _Reader) -> None:
        """Name what is left of a mapping."""
        for path in reader.left():
            self.note(path, "this version does not know the field")


def convert(source: Any) -> Converted:
    """Return the manifest for one of MLModelScope's; raises TaskRefusedError if it is none."""
    if not isinstance(source, dict) or not {"name", "framework"} <= source.keys():
        raise TaskRefusedError(
            "The file is no manifest of MLModelScope: it must have name and framework."
        )
    made = _Conversion()
    top = _Reader(source)
    outputs, assets, task = _outputs(top, made)
    manifest: dict[str, Any] = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "ModelManifest",
        "name": str(made.take(top, "name")),
        "version": _semver(made.take(top, "version")),
        "description": str(made.take(top, "description") or "").strip(),
        "license": _license(made.take(top, "license")),
        "references": [str(each) for each in made.take(top, "references") or []],
        "task": task,
        "framework": _framework(top, made),
        "inputs": _inputs(top, made),
        "outputs": outputs,
        **_python(top, made),
        "assets": [*_model_files(top, made), *assets],
        "attributes": _attributes(top, made),
    }
    _containers(top, made)
    if top.take("hidden") is not None:
        made.note("hidden", "a manifest that is not to be used is not kept")
    made.finish(top)
    kept = {key: value for key, value in manifest.items() if value not in ("", [], {}, None)}
    return Converted(kept, tuple(made.mapped), made.not_mapped)


def _semver(version: Any) -> str:
    parts = str(version if version is not None else "0").split(".")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _license(given: Any) -> str:
    text = str(given or "not stated")
    return _LICENSES.get(text, text)


def _framework(top: _Reader, made: _Conversion) -> dict[str, str]:
    reader = top.part("framework")
    found = {"name": str(made.take(reader, "name"))}
    version = made.take(reader, "version")
    if version is not None:
        found["version"] = str(version)
    if reader.take("container") is not None:
        made.note("framework.container", _CONTAINER)
    made.finish(reader)
    return found


_CONTAINER = "images are chosen by server.runtime and the chart's values"


def _containers(top: _Reader, made: _Conversion) -> None:
    """Name the images of each architecture; a run's runtime chooses its image."""
    for architecture, images in (top.take("container") or {}).items():
        for device in images if isinstance(images, dict) else ():
            made.note(f"container.{architecture}.{device}", _CONTAINER)


def _attributes(top: _Reader, made: _Conversion) -> dict[str, str]:
    reader = top.part("attributes")
    return {
        name: str(value)
        for name in reader.data
        if (value := made.take(reader, name)) is not None and str(value).strip()
    }


def _python(top: _Reader, made: _Conversion) -> dict[str, str]:
    """Return Python of its own; the parts before and after it have no place."""
    found = {}
    for name in ("preprocess", "postprocess"):
        text = top.data.get(name)
        if text:
            found[name] = str(made.take(top, name))
        for when in (f"before_{name}", f"after_{name}"):
            if top.take(when):
                made.note(when, f"join it with {name}, which is one function here")
    return found


def _model_files(top: _Reader, made: _Conversion) -> list[dict[str, str]]:
    """Return the graph and its weights as assets; their checksums are MD5, and ours SHA-256."""
    reader = top.part("model")
    base = str(made.take(reader, "base_url") or "")
    found = []
    for kind in ("graph", "weights"):
        path = made.take(reader, f"{kind}_path")
        if path:
            found.append({"path": str(path).rpartition("/")[2], "source": f"{base}{path}"})
        if reader.take(f"{kind}_checksum"):
            made.note(
                f"model.{kind}_checksum",
                "it is an MD5 sum, and an asset has a SHA-256: compute it from the file",
            )
    if reader.take("is_archive"):
        made.note("model.is_archive", "unpack the archive: an asset is one file")
    made.finish(reader)
    return found


def _inputs(top: _Reader, made: _Conversion) -> list[dict[str, Any]]:
    if top.data.get("preprocess"):
        top.read.add("inputs")
    given = top.take("inputs")
    return [
        _input(_Reader(each, f"inputs[{index}]."), index, made)
        for index, each in enumerate(given if isinstance(given, list) else [])
        if isinstance(each, dict)
    ]


def _input(reader: _Reader, index: int, made: _Conversion) -> dict[str, Any]:
    modality = {"image": "Image", "text": "Text"}.get(str(made.take(reader, "type")), "Values")
    parameters = reader.part("parameters")
    names = [made.take(parameters, name) for name in ("input_layer", "layer_name")]
    found: dict[str, Any] = {
        "name": str(next((name for name in names if name), f"input{index}")),
        "modality": modality,
        "description": str(made.take(reader, "description") or ""),
    }
    element = made.take(parameters, "element_type")
    if str(element) in _DATATYPES:
        found["datatype"] = _DATATYPES[str(element)]
    if modality == "Image":
        found["steps"] = _image_steps(parameters, found.get("datatype"), made)
    for name, why in (
        ("input_type", "a scalar or a slice is what the sample's values are"),
        ("url", "it names example data: name the data set in the run"),
    ):
        if parameters.take(name) is not None:
            made.note(f"{parameters.where}{name}", why)
    made.finish(parameters)
    made.finish(reader)
    return found


def _image_steps(
    parameters: _Reader, datatype: str | None, made: _Conversion
) -> list[dict[str, Any]]:
    """Return the steps that the parameters of an image stand for, in MLModelScope's order."""
    steps: list[dict[str, Any]] = [
        {"decode": {"colorMode": str(made.take(parameters, "color_mode") or "RGB")}}
    ]
    resize = _resize(parameters, made)
    if resize:
        steps.append({"resize": resize})
    mean, scale = made.take(parameters, "mean"), made.take(parameters, "scale")
    if mean is not None or scale is not None:
        steps.append({"normalize": {"mean": _channels(mean, 0.0), "std": _channels(scale, 1.0)}})
    if made.take(parameters, "layout") == "CHW":
        steps.append({"layout": {"order": "CHW"}})
    if datatype is not None:
        steps.append({"cast": {"datatype": datatype}})
    return steps


def _resize(parameters: _Reader, made: _Conversion) -> dict[str, Any]:
    dimensions = made.take(parameters, "dimensions")
    keeps = made.take(parameters, "keep_aspect_ratio")
    most = made.take(parameters, "max_dimension")
    if isinstance(dimensions, list) and len(dimensions) >= 2:
        height, width = (int(each) for each in dimensions[-2:])
        return {"height": height, "width": width, "fit": "Pad" if keeps else "Stretch"}
    if most is not None:
        return {"height": int(most), "width": int(most), "fit": "Pad"}
    return {}


def _channels(given: Any, default: float) -> list[float]:
    if given is None:
        return [default]
    return [float(each) for each in given] if isinstance(given, list) else [float(given)]


def _outputs(
    top: _Reader, made: _Conversion
) -> tuple[list[dict[str, Any]], list[dict[str, str]], str]:
    """Return the outputs, the label file as an asset, and the task."""
    given = top.data.get("output")
    reader = top.part("output") if isinstance(given, dict) else _first_output(top)
    kind = str(made.take(reader, "type"))
    description = str(made.take(reader, "description") or "")
    parameters = reader.part("parameters")
    layers = {name: made.take(parameters, name) for name in _OUTPUTS}
    labels = made.take(parameters, "features_url")
    if parameters.take("features_checksum"):
        made.note(
            f"{parameters.where}features_checksum",
            "it is an MD5 sum, and an asset has a SHA-256: compute it from the file",
        )
    for name in ("element_type", "dimensions"):
        if parameters.take(name) is not None:
            made.note(f"{parameters.where}{name}", "the server reports it of each output")
    made.finish(parameters)
    made.finish(reader)
    assets = [] if not labels else [{"path": _LABELS, "source": str(labels)}]
    found = _named_outputs(kind, layers, has_labels=bool(labels))
    found[0]["description"] = description
    return found, assets, _TASKS.get(kind, "Other")


def _first_output(top: _Reader) -> _Reader:
    outputs = top.take("outputs")
    first = outputs[0] if isinstance(outputs, list) and outputs else {}
    return _Reader(first if isinstance(first, dict) else {}, "outputs[0].")


def _named_outputs(kind: str, layers: dict[str, Any], *, has_labels: bool) -> list[dict[str, Any]]:
    named = {name: str(layer) for name, layer in layers.items() if layer}
    if kind == "boundingbox" and "boxes_layer" in named:
        boxes: dict[str, Any] = {"format": "YXYX", "normalized": True}
        for ours, theirs in (("scores", "probabilities_layer"), ("classes", "classes_layer")):
            if theirs in named:
                boxes[ours] = named[theirs]
        rest = [{"name": name} for key, name in named.items() if key != "boxes_layer"]
        return [{"name": named["boxes_layer"], "steps": [{"boxes": boxes}]}, *rest]
    found: list[dict[str, Any]] = [{"name": name} for name in dict.fromkeys(named.values())] or [
        {"name": "output"}
    ]
    if kind == "classification":
        top_k = {"k": 5, **({"labels": _LABELS} if has_labels else {})}
        found[0]["steps"] = [{"topK": top_k}]
    return found
