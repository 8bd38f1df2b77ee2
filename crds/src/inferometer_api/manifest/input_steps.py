"""Steps that turn a sample into an input of a model. A step's choices are part of the manifest."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from inferometer_api.document import Document, Integral
from inferometer_api.rules import Rule, exactly_one
from inferometer_api.spec.model import Datatype

ResizeMethod = Literal["Nearest", "Box", "Bilinear", "BilinearNoAntialias", "Bicubic", "Lanczos"]
_Pixels = Annotated[int, Field(ge=1, le=16_384), Integral]
MOST_PIXELS = 100_000_000
"""Of an image, as it is decoded and as a step makes it."""
_FITS_PIXELS = Rule(
    cel=f"!has(self.height) || !has(self.width) || self.height * self.width <= {MOST_PIXELS}",
    message=f"height times width must be at most {MOST_PIXELS:,} pixels",
    holds=lambda size: (size.height or 1) * (size.width or 1) <= MOST_PIXELS,
    field="height",
    found=lambda size: f"{size.height} x {size.width}",
)
_Channels = Annotated[list[float], Field(min_length=1, max_length=4)]
AssetPath = Annotated[str, Field(min_length=1, max_length=1024)]


class Decode(Document):
    """Decode an image file to 8-bit pixels, rows by columns by channels."""

    library: Literal["Pillow", "SimpleJpeg", "SimpleJpegFast"] = "Pillow"
    """Pillow reads many formats. SimpleJpeg is libjpeg-turbo; SimpleJpegFast is the same with its \
faster, less exact transform and upsampling."""

    color_mode: Literal["RGB", "BGR", "Gray"] = "RGB"
    """Order of the channels. Gray has one channel."""


class Resize(Document):
    """Resize an image."""

    height: _Pixels | None = None
    """Rows. Absent: in proportion to width."""

    width: _Pixels | None = None
    """Columns. Absent: in proportion to height."""

    method: ResizeMethod = "Bilinear"
    """Interpolation. Box to Lanczos average over all source pixels, as Pillow does. \
BilinearNoAntialias reads four of them around the same centre, as OpenCV and TensorFlow 2 do; \
TensorFlow 1 starts at the corner instead, which no method does."""

    fit: Literal["Stretch", "Cover", "Inside", "Pad"] = "Stretch"
    """Stretch: exactly this size. Cover: keep the aspect ratio, the shorter side fits and the \
longer one exceeds. Inside: keep the aspect ratio, the longer side fits and the shorter one is \
rounded down. Pad: keep the aspect ratio, and fill right and bottom with padValue."""

    pad_value: Annotated[int, Field(ge=0, le=255), Integral] = 0
    """Value of the filled pixels."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.height) || has(self.width)",
            message="set height, width or both",
            holds=lambda resize: resize.height is not None or resize.width is not None,
        ),
        Rule(
            cel="self.fit != 'Pad' || has(self.height) && has(self.width)",
            message="fit Pad needs height and width",
            holds=lambda resize: resize.fit != "Pad" or None not in {resize.height, resize.width},
            field="fit",
        ),
        _FITS_PIXELS,
    )


class Crop(Document):
    """Cut out the centre of an image."""

    height: _Pixels
    """Rows."""

    width: _Pixels
    """Columns."""

    constraints: ClassVar[tuple[Rule, ...]] = (_FITS_PIXELS,)


class Normalize(Document):
    """Compute (value / divideBy - mean) / std in 32-bit floats, by channel."""

    divide_by: Annotated[float, Field(gt=0)] = 1.0
    """Divisor of every value: 255 maps pixels to 0 to 1."""

    mean: _Channels = Field(default=[0.0])
    """Subtracted: one value, or one for each channel."""

    std: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1, max_length=4)] = Field(
        default=[1.0]
    )
    """Divisor after the mean: one value, or one for each channel."""


class Layout(Document):
    """Reorder the axes of an image."""

    order: Literal["HWC", "CHW"]
    """CHW: channels first."""


class Cast(Document):
    """Convert to another datatype."""

    datatype: Datatype
    """Datatype of the Open Inference Protocol."""


class Reshape(Document):
    """Give the values another shape."""

    shape: Annotated[
        list[Annotated[int, Field(ge=-1, le=2**31 - 1), Integral]], Field(max_length=8)
    ]
    """The whole shape without a batch axis; one axis may be -1."""


class Tokenize(Document):
    """Split a text, or a text and its context, into tokens."""

    tokenizer: AssetPath
    """Asset in the format of Hugging Face's tokenizers: tokenizer.json."""

    max_length: Annotated[int, Field(ge=1, le=1_000_000), Integral]
    """Tokens after truncation."""

    padding: Literal["MaxLength", "Absent"] = "MaxLength"
    """MaxLength: every sample has maxLength tokens."""

    part: Literal["Ids", "AttentionMask", "TypeIds"] = "Ids"
    """Which numbers this input holds."""


class FileBytes(Document):
    """Take bytes of a file's begin and end as numbers."""

    begin: Annotated[int, Field(ge=0, le=1_000_000), Integral] = 0
    """Bytes of the begin, padded at their end."""

    end: Annotated[int, Field(ge=0, le=1_000_000), Integral] = 0
    """Bytes of the end, padded at their begin."""

    block: Annotated[int, Field(ge=1, le=100_000_000), Integral] = 4096
    """Bytes at both ends of the file from which blanks are stripped first."""

    padding: Annotated[int, Field(ge=0, le=65_535), Integral] = 256
    """Number that stands for an absent byte."""


class InputStep(Document):
    """One step from a sample to an input. Set exactly one member."""

    decode: Decode | None = None
    """Decode an image file."""

    resize: Resize | None = None
    """Resize an image."""

    crop: Crop | None = None
    """Cut out the centre of an image."""

    normalize: Normalize | None = None
    """Subtract and divide, by channel."""

    layout: Layout | None = None
    """Reorder the axes of an image."""

    cast: Cast | None = None
    """Convert to another datatype."""

    reshape: Reshape | None = None
    """Give the values another shape."""

    tokenize: Tokenize | None = None
    """Split a text into tokens."""

    file_bytes: FileBytes | None = None
    """Take bytes of a file as numbers."""

    constraints: ClassVar[tuple[Rule, ...]] = (
        exactly_one(tuple(to_camel(each) for each in __annotations__ if each != "constraints")),
    )

    @property
    def setting(self) -> Document:
        """The member that is set."""
        return set_member(self)


def set_member(step: Document) -> Document:
    """Return the member of a step that is set."""
    values = (getattr(step, name) for name in type(step).model_fields)
    found: Document = next(value for value in values if value is not None)
    return found
