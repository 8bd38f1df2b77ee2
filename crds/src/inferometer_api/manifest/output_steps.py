"""Steps that turn the outputs of a model into a prediction."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from inferometer_api.document import Document, Integral
from inferometer_api.manifest.input_steps import AssetPath, set_member
from inferometer_api.rules import Rule, exactly_one

_OutputName = Annotated[str, Field(min_length=1, max_length=253)]
_Share = Annotated[float, Field(ge=0, le=1)]


class Softmax(Document):
    """Turn scores into probabilities along the last axis that has more than one."""


class TopK(Document):
    """Keep the classes with the highest scores, the first of equal ones first."""

    k: Annotated[int, Field(ge=1, le=1000), Integral] = 5
    """How many."""

    labels: AssetPath | None = None
    """Asset with one label per line. Absent: classes have numbers only."""


class Boxes(Document):
    """Read boxes, drop those of low scores, and suppress those that overlap a better one."""

    format: Literal["XYXY", "YXYX", "XYWH", "CXCYWH"] = "XYXY"
    """Corners, corner and size, or centre and size."""

    normalized: bool = False
    """Whether coordinates are from 0 to 1, and not pixels of the input."""

    scores: _OutputName | None = None
    """Output with the scores: one per box, or one per box and class. Absent: the columns after \
the four of the box."""

    classes: _OutputName | None = None
    """Output with the class of each box. Absent: that of the highest score."""

    score_threshold: _Share = 0.05
    """Lowest score that counts."""

    iou_threshold: _Share = 0.5
    """Overlap above which the worse of two boxes of one class is dropped; 1 keeps all."""

    max_boxes: Annotated[int, Field(ge=1, le=10_000), Integral] = 100
    """Boxes kept, the best first."""


class Ctc(Document):
    """Read a text from scores by position: the best path, without repeats and blanks."""

    vocabulary: AssetPath
    """Asset with one character per line."""

    blank: Literal["First", "Last"] = "First"
    """Where the class without a character is."""

    space: bool = True
    """Whether the class after the vocabulary's last is a blank character."""


class ArgmaxMask(Document):
    """Take the class with the highest score at each pixel."""

    axis: Annotated[int, Field(ge=-4, le=3), Integral] = 0
    """Axis of the classes, without the batch axis."""


class ClassMask(Document):
    """Take the numbers as the class of each pixel, from a model that ends with the argmax."""


class AnswerSpan(Document):
    """Take the most likely stretch of the context: the answer to a question."""

    end: _OutputName
    """Output with the scores of the last token. This output has those of the first."""

    tokenizer: AssetPath
    """The tokenizer of the input."""

    max_length: Annotated[int, Field(ge=1, le=1_000_000), Integral]
    """Tokens of the input after truncation."""

    max_answer_tokens: Annotated[int, Field(ge=1, le=1000), Integral] = 30
    """Longest answer."""


class OutputStep(Document):
    """One step from an output to a prediction. Set exactly one member."""

    softmax: Softmax | None = None
    """Turn scores into probabilities."""

    top_k: TopK | None = None
    """Keep the best classes."""

    boxes: Boxes | None = None
    """Read boxes and suppress overlapping ones."""

    ctc: Ctc | None = None
    """Read a text."""

    argmax_mask: ArgmaxMask | None = None
    """Take the best class of each pixel."""

    mask: ClassMask | None = None
    """Take the numbers as the class of each pixel."""

    span: AnswerSpan | None = None
    """Take the answer out of the context."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        exactly_one(tuple(to_camel(each) for each in __annotations__ if each != "constraints")),
    )

    @property
    def setting(self) -> Document:
        """The member that is set."""
        return set_member(self)
