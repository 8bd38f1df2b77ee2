"""Writes the reply to an inference request."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import orjson

from inferometer_serving.infer.json_tensors import to_json
from inferometer_serving.infer.signature import Shape, TensorSpec
from inferometer_serving.infer.tensors import Array, Raw, to_raw


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """One output that a request wants, and in which form."""

    spec: TensorSpec
    is_binary: bool


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The JSON of answers with the same outputs in the same shapes, without what differs."""

    outputs: tuple[PlannedOutput, ...]
    shapes: tuple[Shape, ...]
    template: bytes
    """With a gap for the id, and one for each output whose text follows from its elements."""

    def fill(self, request_id: str | None, results: Sequence[Array]) -> tuple[bytes, list[Raw]]:
        """Return the JSON of one answer and the binary data behind it.

        Raises RequestRefusedError if JSON cannot carry an output.
        """
        gaps = [b"" if request_id is None else b',"id":' + orjson.dumps(request_id)]
        raw: list[Raw] = []
        for planned, array in zip(self.outputs, results, strict=True):
            datatype = planned.spec.datatype
            if planned.is_binary:
                data = to_raw(datatype, array)
                raw.append(data)
                if datatype.item_bytes is None:
                    gaps.append(b"%d" % len(data))
            else:
                gaps.append(to_json(planned.spec.name, datatype, array))
        return self.template % tuple(gaps), raw


def answer_form(
    model_name: str,
    model_version: str,
    outputs: tuple[PlannedOutput, ...],
    shapes: tuple[Shape, ...],
) -> AnswerForm:
    """Return the form of replies with `outputs` of these `shapes`."""
    model = _members({"model_name": model_name, "model_version": model_version})
    templates = [_template(planned, shape) for planned, shape in zip(outputs, shapes, strict=True)]
    template = b'{%b%%b,"outputs":[%b]}' % (model, b",".join(templates))
    return AnswerForm(outputs, shapes, template)


def _template(planned: PlannedOutput, shape: Shape) -> bytes:
    datatype = planned.spec.datatype
    named = _members({"name": planned.spec.name, "datatype": datatype.name, "shape": shape})
    if not planned.is_binary:
        return b'{%b,"data":%%b}' % named
    size = b"%b" if datatype.item_bytes is None else b"%d" % (prod(shape) * datatype.item_bytes)
    return b'{%b,"parameters":{"binary_data_size":%b}}' % (named, size)


def _members(document: dict[str, object]) -> bytes:
    """Return the members of a JSON object as they stand in a template."""
    return orjson.dumps(document)[1:-1].replace(b"%", b"%%")
