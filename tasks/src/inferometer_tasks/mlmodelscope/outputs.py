"""Outputs of a manifest of MLModelScope, the steps after the model, and its task."""

from dataclasses import dataclass, field
from typing import Any

from inferometer_tasks.mlmodelscope.fields import Fields, UnmappedError, sha256, tensor_name, text
from inferometer_tasks.mlmodelscope.inputs import finish_step, layer_name, listed_steps

LABELS = "labels.txt"
_TASKS = {
    "classification": "ImageClassification",
    "boundingbox": "ObjectDetection",
    "boundingboxes": "ObjectDetection",
    "semanticsegment": "SemanticSegmentation",
    "instancesegment": "InstanceSegmentation",
    "image": "ImageEnhancement",
    "image_classification": "ImageClassification",
    "image_object_detection": "ObjectDetection",
    "image_semantic_segmentation": "SemanticSegmentation",
    "image_instance_segmentation": "InstanceSegmentation",
    "image_instance_segmentation_raw": "InstanceSegmentation",
    "image_enhancement": "ImageEnhancement",
}
_OTHER_TYPES = (
    "classes",
    "feature",
    "general",
    "masks",
    "probability",
    "raw",
    "scores",
    "segmentation",
)
_ROLES = {
    "boxes_layer": "boxes",
    "probabilities_layer": "scores",
    "classes_layer": "classes",
    "masks_layer": "masks",
}
_ROLES_OF_TYPES = {
    "boundingbox": "boxes",
    "boundingboxes": "boxes",
    "classes": "classes",
    "classification": "scores",
    "masks": "masks",
    "probability": "scores",
    "scores": "scores",
    "semanticsegment": "masks",
}
_PYTHON = "postprocess takes the place of the outputs' steps"


@dataclass(slots=True)
class Outputs:
    """The outputs in our form, and what else their fields say."""

    found: list[dict[str, Any]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """The name of the first output in each role: boxes, scores, classes, masks."""
    types: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    """Source and checksum of the file with the labels."""


def convert_outputs(top: Fields, labels: dict[str, str], *, has_python: bool) -> Outputs:
    """Return our outputs; `labels` are those that another field names."""
    outputs = Outputs(labels=labels)
    entries = [top.child("output")] if "output" in top else []
    entries += top.children("outputs")
    for index, fields in enumerate(entries):
        _read_output(fields, outputs, "output" if len(entries) == 1 else f"output{index}")
        if "steps" in fields and has_python:
            fields.note("steps", _PYTHON)
        elif "steps" in fields:
            outputs.found[-1]["steps"] = _listed_steps(fields, outputs)
        fields.finish()
    if not has_python and not any("steps" in each for each in outputs.found):
        _add_steps(outputs)
    return outputs


def task(top: Fields, outputs: Outputs) -> str:
    """Return the task: the modality, or else what the type of an output stands for."""
    types = [top.take("modality", _type) or "", *outputs.types]
    return next((_TASKS[each] for each in types if each in _TASKS), "Other")


def take_labels(fields: Fields, name: str, labels: dict[str, str]) -> None:
    """Read the address of the labels, and the checksum next to it."""
    source = fields.take(name, text)
    checksum = fields.take("features_checksum", sha256)
    if source and labels.get("source", source) != source:
        fields.unmap(name, f"{LABELS} is that of another field")
    elif source:
        labels["source"] = source
        if checksum:
            labels["sha256"] = checksum


def _type(value: Any) -> str:
    found = text(value).lower()
    if found not in _TASKS and found not in _OTHER_TYPES:
        raise UnmappedError("no task here has this name")
    return found


def _read_output(fields: Fields, outputs: Outputs, default: str) -> None:
    """Append the output, or those that an older manifest names in one."""
    kind = fields.take("type", _type) or ""
    description = fields.take("description", text) or ""
    parameters = fields.child("parameters")
    if kind == "feature" and ("features_url" in parameters or outputs.labels):
        kind = "classification"  # the older name: the features are labels
    first = _ROLES_OF_TYPES.get(kind, "scores")
    roles = {
        role: name
        for layer, role in sorted(_ROLES.items(), key=lambda each: each[1] != first)
        if (name := parameters.take(layer, tensor_name))
    }
    if not roles:
        names = ("output_layer", "layer_name")
        roles = {_ROLES_OF_TYPES.get(kind, ""): layer_name(fields, parameters, names, default)}
    take_labels(parameters, "features_url", outputs.labels)
    for name in ("element_type", "dimensions"):
        for each in (parameters, fields):
            if name in each:
                each.note(name, "the server reports it of each output")
    parameters.finish()
    outputs.types.append(kind)
    for role, name in roles.items():
        outputs.names.setdefault(role, name)
    made: list[dict[str, Any]] = [{"name": name} for name in dict.fromkeys(roles.values())]
    if description:
        made[0]["description"] = description
    outputs.found += made


def _listed_steps(fields: Fields, outputs: Outputs) -> list[dict[str, Any]]:
    """Return the steps of a list in its order."""
    found: list[dict[str, Any]] = []
    for name, settings in listed_steps(fields, ("argsort", "softmax")):
        if name == "softmax":
            found.append({"softmax": {}})
        else:
            take_labels(settings, "labels_url", outputs.labels)
            found.append(_top_k(outputs))
        finish_step(settings, is_made=True)
    return found


def _add_steps(outputs: Outputs) -> None:
    """Add the steps that the types of the outputs stand for."""
    by_name = {each["name"]: each for each in outputs.found}
    if "boxes" in outputs.names and not {"boundingbox", "boundingboxes"}.isdisjoint(outputs.types):
        boxes: dict[str, Any] = {"format": "YXYX", "normalized": True}
        for role in ("scores", "classes"):
            if role in outputs.names:
                boxes[role] = outputs.names[role]
        by_name[outputs.names["boxes"]]["steps"] = [{"boxes": boxes}]
    elif "scores" in outputs.names and not {"classification", "probability"}.isdisjoint(
        outputs.types
    ):
        by_name[outputs.names["scores"]]["steps"] = [_top_k(outputs)]
    elif "masks" in outputs.names and "semanticsegment" in outputs.types:
        by_name[outputs.names["masks"]]["steps"] = [{"mask": {}}]


def _top_k(outputs: Outputs) -> dict[str, Any]:
    return {"topK": {"k": 5, **({"labels": LABELS} if outputs.labels else {})}}
