"""The plan of an inference request: the layout of its tensors, and the outputs it requests.

A plan says only that. It is kept for later requests, so it holds nothing that belongs to one
request: neither tensors nor an id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from inferometer_serving.errors import invalid
from inferometer_serving.infer.answer import AnswerForm, PlannedOutput, answer_form
from inferometer_serving.infer.json_tensors import from_json
from inferometer_serving.infer.signature import Shape, Signature, TensorSpec
from inferometer_serving.infer.tensors import Array, Raw, from_raw


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """One input of a request: in its JSON, or at these places of the binary data behind it."""

    spec: TensorSpec
    shape: Shape
    is_json: bool
    start: int
    stop: int

    def tensor(self, raw: memoryview, data: object) -> Array:
        """Return the tensor from the binary data or from its "data" member.

        Raises RequestRefusedError if that does not fit.
        """
        spec = self.spec
        if self.is_json:
            return from_json(spec.name, spec.datatype, self.shape, data)
        return from_raw(spec.name, spec.datatype, self.shape, raw[self.start : self.stop])


@dataclass(slots=True)
class InferencePlan:
    """All that requests alike but for their tensors and ids ask for."""

    inputs: tuple[PlannedInput, ...]
    outputs: tuple[PlannedOutput, ...]
    parameters: bytes = b""
    """The properties, other than shapes, that joined requests must share."""
    output_names: list[str] = field(init=False)
    binary_bytes: int = field(init=False)
    is_binary: bool = field(init=False)
    """Whether no input is in the JSON."""
    last_form: AnswerForm | None = field(init=False, default=None)
    """That of the last answer, which the next one is likely to have too."""

    def __post_init__(self) -> None:
        self.output_names = [each.spec.name for each in self.outputs]
        self.binary_bytes = self.inputs[-1].stop
        self.is_binary = not any(each.is_json for each in self.inputs)

    def tensors(self, data: Sequence[object], raw: Raw) -> dict[str, Array]:
        """Return the inputs by name, from each one's "data" member and the binary data.

        Raises RequestRefusedError if these do not fit.
        """
        if len(raw) != self.binary_bytes:
            raise invalid(
                f"The request has {len(raw)} bytes after its JSON, but its binary_data_size "
                f"members add up to {self.binary_bytes}: make them agree."
            )
        view = memoryview(raw)
        return {
            planned.spec.name: planned.tensor(view, each)
            for planned, each in zip(self.inputs, data, strict=True)
        }

    def answer_form(
        self, model_name: str, model_version: str, results: Sequence[Array]
    ) -> AnswerForm:
        """Return the form of a reply with `results`."""
        shapes = tuple([each.shape for each in results])
        form = self.last_form
        if form is None or form.shapes != shapes:
            form = answer_form(model_name, model_version, self.outputs, shapes)
            self.last_form = form
        return form


class InferenceRequest(NamedTuple):
    """One request: its plan, and what is its own."""

    plan: InferencePlan
    request_id: str | None
    data: Sequence[object]
    """The "data" member of each input; None for one that is binary."""


def planned_outputs(specs: Iterable[TensorSpec], *, is_binary: bool) -> tuple[PlannedOutput, ...]:
    """Return a plan for outputs that are all wanted in one form."""
    return tuple(PlannedOutput(each, is_binary) for each in specs)


def raw_request(signature: Signature, size: int) -> InferenceRequest:
    """Return the request that is nothing but its one input's bytes.

    Raises RequestRefusedError if the model has several inputs, or the shape does not follow
    from `size`.
    """
    spec = signature.inputs[0] if len(signature.inputs) == 1 else None
    item = None if spec is None else spec.datatype.item_bytes
    if spec is None or item is None or spec.shape.count(-1) > 1:
        raise invalid(
            "A request without JSON (Inference-Header-Content-Length: 0) needs a model with one "
            "input of a numeric datatype and one open axis at most: send JSON."
        )
    fixed = item
    for extent in spec.shape:
        fixed *= 1 if extent == -1 else extent
    shape = tuple(size // fixed if extent == -1 and fixed else extent for extent in spec.shape)
    planned = PlannedInput(spec, shape, is_json=False, start=0, stop=size)
    outputs = planned_outputs(signature.outputs, is_binary=True)
    return InferenceRequest(InferencePlan((planned,), outputs), None, (None,))
