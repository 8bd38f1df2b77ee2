"""Image files as Pillow opens them, within our limit of pixels."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inferometer_api.manifest.input_steps import MOST_PIXELS
from inferometer_tasks.errors import SampleError


@contextmanager
def opened_image(content: bytes, subject: str) -> Iterator[Any]:
    """Yield an image file as Pillow opens it, before its pixels are decoded.

    Raises SampleError, with `subject` as its first words, if the file is no image, or has more
    pixels than MOST_PIXELS. Errors of Pillow within the block become SampleErrors, too.
    """
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - few models have images

    # Pillow warns below our limit. Its error comes beyond our limit, but before the size is known.
    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
    try:
        with Image.open(io.BytesIO(content)) as opened:
            check_size(opened.height, opened.width, subject)
            yield opened
    except SampleError:
        raise
    except Image.DecompressionBombError as error:
        raise SampleError(
            f"{subject} cannot be decoded: it has more than {MOST_PIXELS:,} pixels."
        ) from error
    except UnidentifiedImageError as error:
        raise SampleError(
            f"{subject} cannot be decoded: its {len(content):,} bytes have no format that Pillow "
            "knows."
        ) from error
    except (OSError, ValueError, SyntaxError) as error:
        raise SampleError(f"{subject} cannot be decoded: {error}.") from error


def check_size(height: int, width: int, subject: str) -> None:
    """Raise SampleError if an image has more pixels than MOST_PIXELS."""
    if height * width > MOST_PIXELS:
        raise SampleError(
            f"{subject} has {height} x {width} pixels, and at most {MOST_PIXELS:,} are decoded."
        )
