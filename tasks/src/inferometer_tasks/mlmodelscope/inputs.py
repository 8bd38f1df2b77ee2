"""Inputs of a manifest of MLModelScope: parameters, or steps, of each."""

from collections.abc import Iterator
from typing import Any

from inferometer_tasks.mlmodelscope.fields import (
    Fields,
    UnmappedError,
    channels,
    datatype,
    divisors,
    flag,
    pixels,
    tensor_name,
    text,
)

_MODALITIES = {"image": "Image", "text": "Text", "raw": "Values", "general": "Values"}
_COLORS = {"rgb": "RGB", "bgr": "BGR", "gray": "Gray", "grey": "Gray", "grayscale": "Gray"}
_METHODS = {
    "nearest": "Nearest",
    "box": "Box",
    "bilinear": "Bilinear",
    "linear": "Bilinear",
    "bicubic": "Bicubic",
    "cubic": "Bicubic",
    "lanczos": "Lanczos",
}
_LAYOUTS = {"hwc": "HWC", "nhwc": "HWC", "chw": "CHW", "nchw": "CHW"}
_CHANNELS = (1, 3, 4)
_IMAGE_PARAMETERS = (
    "color_mode",
    "dimensions",
    "keep_aspect_ratio",
    "layout",
    "max_dimension",
    "mean",
    "scale",
)
_PYTHON = "preprocess takes the place of the inputs' steps"


def convert_inputs(top: Fields, *, has_python: bool) -> list[dict[str, Any]]:
    """Return our inputs; those of a manifest with Python of its own have no steps."""
    return [
        _input(fields, index, has_python=has_python)
        for index, fields in enumerate(top.children("inputs"))
    ]


def _input(fields: Fields, index: int, *, has_python: bool) -> dict[str, Any]:
    modality = fields.take("type", _modality) or "Values"
    parameters = fields.child("parameters")
    name = layer_name(fields, parameters, ("input_layer", "layer_name"), f"input{index}")
    found: dict[str, Any] = {
        "name": name,
        "modality": modality,
        "description": fields.take("description", text) or "",
        "datatype": _element_type(fields, parameters),
        "steps": _steps(fields, parameters, modality, has_python=has_python),
    }
    if found["steps"] and found["datatype"]:
        found["steps"].append({"cast": {"datatype": found["datatype"]}})
    for parameter, why in (
        ("input_type", "a scalar or a slice is what the sample's values are"),
        ("url", "it names example data: name the data set in the run"),
    ):
        if parameter in parameters:
            parameters.note(parameter, why)
    parameters.finish()
    fields.finish()
    return {key: value for key, value in found.items() if value}


def layer_name(fields: Fields, parameters: Fields, names: tuple[str, ...], default: str) -> str:
    """Return the name of a tensor from an input or output, or its parameters."""
    found = parameters.take_first(names, tensor_name) or fields.take("layer_name", tensor_name)
    if not found:
        place = fields.path.removesuffix(".")
        fields.notes.checks.append(f"{place} does not name its tensor, and is {default} here")
    return found or default


def _modality(value: Any) -> str:
    if (found := _MODALITIES.get(text(value).lower())) is None:
        raise UnmappedError("samples of this type are read as numbers")
    return found


def _element_type(fields: Fields, parameters: Fields) -> str | None:
    return parameters.take("element_type", datatype) or fields.take("element_type", datatype)


def _steps(
    fields: Fields, parameters: Fields, modality: str, *, has_python: bool
) -> list[dict[str, Any]]:
    """Return the steps, as they are listed or as the parameters of an image stand for them."""
    if has_python or "steps" in fields:
        why = _PYTHON if has_python else "the list of steps takes its place"
        for name in _IMAGE_PARAMETERS:
            if name in parameters:
                parameters.note(name, why)
    if has_python:
        if "steps" in fields:
            fields.note("steps", _PYTHON)
        return []
    if "steps" in fields:
        return _listed_steps(fields)
    return _image_steps(parameters) if modality == "Image" else []


def _image_steps(parameters: Fields) -> list[dict[str, Any]]:
    """Return the steps that the parameters of an image stand for, in MLModelScope's order."""
    order = parameters.take("layout", _layout)
    decode = _decode(parameters)
    resize = _resize_of_parameters(parameters, order)
    normalize = _normalize(parameters, ("scale",))
    if decode["decode"]["colorMode"] == "BGR":
        for each in normalize:  # MLModelScope's values are for red, green and blue in any mode
            each["normalize"] = {name: found[::-1] for name, found in each["normalize"].items()}
    steps = [decode, *([{"resize": resize}] if resize else []), *normalize]
    return [*steps, *_channels_first(order)]


def _resize_of_parameters(parameters: Fields, order: str | None) -> dict[str, Any]:
    """Return the resize that the parameters of an image stand for.

    MLModelScope scales to `dimensions` whatever the aspect ratio; `max_dimension` replaces them.
    """
    most = parameters.take("max_dimension", pixels)
    if most is None:
        found = _resize(parameters, order)
        parameters.unmap("keep_aspect_ratio", "MLModelScope reads it next to max_dimension only")
        return {**found, "fit": "Stretch"} if found else {}
    if "dimensions" in parameters:
        parameters.note("dimensions", "max_dimension takes its place")
    method = parameters.take("method", _method)
    if parameters.take("keep_aspect_ratio", flag):
        found = {"height": most, "width": most, "fit": "Inside"}
        return {**found, "method": method} if method else found
    for name in ("max_dimension", "keep_aspect_ratio", "method"):
        parameters.unmap(
            name, "without the aspect ratio, MLModelScope only enlarges sides: no step does"
        )
    return {}


def _listed_steps(fields: Fields) -> list[dict[str, Any]]:
    """Return the steps of a list in its order."""
    found: list[dict[str, Any]] = []
    order: str | None = None
    for name, settings in listed_steps(fields, ("decode", "resize", "crop", "normalize")):
        match name:
            case "decode":
                order = settings.take_first(("data_layout", "layout"), _layout)
                made = [_decode(settings)]
            case "resize":
                resize = _resize(settings, order)
                made = [{"resize": resize}] if resize else []
            case "crop":
                size = _dimensions(settings, order)
                made = [{"crop": {"height": size[0], "width": size[1]}}] if size else []
            case _:
                made = _normalize(settings, ("rescale", "scale"))
                if made and {"decode": {"colorMode": "BGR"}} in found:
                    settings.notes.checks.append(
                        f"{settings.path.removesuffix('.')} applies to channels in the order BGR"
                    )
        finish_step(settings, is_made=bool(made))
        found += made
    return [*found, *_channels_first(order)]


def listed_steps(fields: Fields, known: tuple[str, ...]) -> Iterator[tuple[str, Fields]]:
    """Yield name and settings of each entry of `steps`; name those that are not in `known`."""
    given = fields.read("steps")
    if not isinstance(given, list):
        fields.note("steps", "it must be a list")
        return
    for index, each in enumerate(given):
        entry = {each: {}} if isinstance(each, str) else each
        place = f"steps[{index}]"
        if not isinstance(entry, dict) or len(entry) != 1:
            fields.note(place, "a step is a name with its settings")
            continue
        ((name, settings),) = entry.items()
        if settings is not None and not isinstance(settings, dict):
            fields.note(f"{place}.{name}", "its settings must be a mapping")
        elif name not in known:
            fields.note(f"{place}.{name}", "this version does not know the step")
        else:
            yield name, Fields(fields.notes, settings or {}, f"{fields.path}{place}.{name}.")


def finish_step(settings: Fields, *, is_made: bool) -> None:
    """Name the settings that were not read, and the step itself if none could be made of it."""
    settings.finish()
    place = settings.path.removesuffix(".")
    if not is_made:
        settings.notes.not_mapped[place] = "it has no settings from which a step can be made"
    elif not settings.names:
        settings.notes.mapped.append(place)


def _decode(fields: Fields) -> dict[str, Any]:
    return {"decode": {"colorMode": fields.take("color_mode", _color) or "RGB"}}


def _color(value: Any) -> str:
    if (found := _COLORS.get(text(value).lower())) is None:
        raise UnmappedError("images are decoded as RGB, BGR or Gray")
    return found


def _layout(value: Any) -> str:
    if (found := _LAYOUTS.get(text(value).lower())) is None:
        raise UnmappedError("the layouts are HWC and CHW, with or without N")
    return found


def _channels_first(order: str | None) -> list[dict[str, Any]]:
    return [{"layout": {"order": order}}] if order == "CHW" else []


def _resize(fields: Fields, order: str | None) -> dict[str, Any]:
    size = _dimensions(fields, order)
    keeps = fields.take("keep_aspect_ratio", flag)
    method = fields.take("method", _method)
    if size is None:
        for name in ("keep_aspect_ratio", "method"):
            fields.unmap(name, "there is no size to resize to")
        return {}
    found = {"height": size[0], "width": size[1], "fit": "Pad" if keeps else "Stretch"}
    return found if method is None else {**found, "method": method}


def _dimensions(fields: Fields, order: str | None) -> tuple[int, int] | None:
    return fields.take("dimensions", lambda value: _size(value, order))


def _method(value: Any) -> str:
    if (found := _METHODS.get(text(value).lower())) is None:
        raise UnmappedError(f"no step resizes so: the methods are {', '.join(_METHODS)}")
    return found


def _size(value: Any, order: str | None) -> tuple[int, int]:
    """Return height and width of a shape; channels are the axis that has 1, 3 or 4."""
    shape = [pixels(each) for each in value] if isinstance(value, list) else []
    if len(shape) == 1:
        shape *= 2
    if len(shape) == 4:
        del shape[0]
    if len(shape) == 3:
        first, last = shape[0] in _CHANNELS, shape[2] in _CHANNELS
        has_channels_last = last if first != last else order == "HWC"
        shape = shape[:2] if has_channels_last else shape[1:]
    if len(shape) != 2:
        raise UnmappedError("it must be height and width, with or without the channels")
    return shape[0], shape[1]


def _normalize(fields: Fields, names: tuple[str, ...]) -> list[dict[str, Any]]:
    mean, std = fields.take("mean", channels), fields.take_first(names, divisors)
    if mean is None and std is None:
        return []
    return [{"normalize": {"mean": mean or [0.0], "std": std or [1.0]}}]
