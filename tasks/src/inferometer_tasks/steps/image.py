"""Steps on images: arrays of rows, columns and channels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from inferometer_api.manifest.input_steps import MOST_PIXELS, Crop, Decode, Resize
from inferometer_tasks.errors import SampleError
from inferometer_tasks.image_file import check_size, opened_image

Image = npt.NDArray[np.uint8]
_SUBJECT = "The image"
_SIMPLE_COLORS = {"RGB": "RGB", "BGR": "BGR", "Gray": "GRAY"}


def decode(step: Decode, content: bytes) -> Image:
    """Return the pixels of an image file, [rows, columns, channels]; raises SampleError."""
    if step.library == "Pillow":
        return _pillow(step, content)
    import simplejpeg  # noqa: PLC0415 - few manifests need it

    fast = step.library == "SimpleJpegFast"
    try:
        height, width, *_ = simplejpeg.decode_jpeg_header(content)
        check_size(height, width, _SUBJECT)
        found: Image = simplejpeg.decode_jpeg(
            content, _SIMPLE_COLORS[step.color_mode], fastdct=fast, fastupsample=fast
        )
    except SampleError:
        raise
    except ValueError as error:
        raise SampleError(f"{_SUBJECT} is no JPEG that can be decoded: {error}.") from error
    return found


def _pillow(step: Decode, content: bytes) -> Image:
    with opened_image(content, _SUBJECT) as opened:
        converted = _in_8_bits(opened).convert("L" if step.color_mode == "Gray" else "RGB")
        pixels = np.asarray(converted)
    if step.color_mode == "Gray":
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if step.color_mode == "BGR" else pixels


def _in_8_bits(opened: Any) -> Any:
    """Return an image of Pillow in 8 bits per channel; raises SampleError if its range is unknown.

    Of 16 bits the upper 8 remain, as Pillow reads colours of 16 bits; its `convert` would cut gray
    ones off at 255.
    """
    from PIL import Image as pillow  # noqa: N813, PLC0415 - a module; few models have images

    if opened.mode.startswith("I;16"):
        return pillow.fromarray((np.asarray(opened) >> 8).astype(np.uint8))
    if opened.mode in {"I", "F"}:
        kind = "floats" if opened.mode == "F" else "whole numbers of 32 bits"
        raise SampleError(
            f"The image has {kind}, whose black and white are not known: save it with 8 bits per "
            "channel, or give the data set its values instead of a file."
        )
    return opened


def resize(step: Resize, image: Image) -> Image:
    """Return an image of another size; raises SampleError if it would be too large."""
    height, width = target_size(step, *image.shape[:2])
    resized = _scaled(step.method, image, height, width)
    if step.fit != "Pad" or step.height is None or step.width is None:
        return resized
    padded = np.full((step.height, step.width, image.shape[2]), step.pad_value, np.uint8)
    padded[:height, :width] = resized
    return padded


def target_size(step: Resize, height: int, width: int) -> tuple[int, int]:
    """Return the rows and columns that an image of this size is scaled to.

    Raises SampleError if they, or those of the padded image, are too many.
    """
    rows, columns = _fitted(step, height, width)
    if step.fit == "Pad":
        rows_in_all, columns_in_all = step.height or rows, step.width or columns
    else:
        rows_in_all, columns_in_all = rows, columns
    if rows_in_all * columns_in_all > MOST_PIXELS:
        raise SampleError(
            f"The image has {height} x {width} pixels, and resize would make "
            f"{rows_in_all} x {columns_in_all} of them: at most {MOST_PIXELS:,} are made."
        )
    return rows, columns


def _fitted(step: Resize, height: int, width: int) -> tuple[int, int]:
    tall, wide = step.height, step.width
    if tall is None or wide is None:
        scale = (wide or 0) / width if tall is None else tall / height
        return tall or max(1, round(height * scale)), wide or max(1, round(width * scale))
    if step.fit == "Stretch":
        return tall, wide
    if step.fit == "Inside":
        return max(1, min(tall, height * wide // width)), max(1, min(wide, width * tall // height))
    choose = max if step.fit == "Cover" else min
    scale = choose(tall / height, wide / width)
    rows, columns = max(1, round(height * scale)), max(1, round(width * scale))
    return (rows, columns) if step.fit == "Cover" else (min(rows, tall), min(columns, wide))


def _scaled(method: str, image: Image, height: int, width: int) -> Image:
    if image.shape[:2] == (height, width):
        return image
    if method == "BilinearNoAntialias":
        return _four_neighbours(image, height, width)
    from PIL import Image as pillow  # noqa: N813, PLC0415 - as above

    filters = {
        "Nearest": pillow.Resampling.NEAREST,
        "Box": pillow.Resampling.BOX,
        "Bilinear": pillow.Resampling.BILINEAR,
        "Bicubic": pillow.Resampling.BICUBIC,
        "Lanczos": pillow.Resampling.LANCZOS,
    }
    channels = [
        np.asarray(pillow.fromarray(image[:, :, each]).resize((width, height), filters[method]))
        for each in range(image.shape[2])
    ]
    return np.stack(channels, axis=2)


def _four_neighbours(image: Image, height: int, width: int) -> Image:
    """Interpolate between the four nearest pixels, with the centres of pixels at their halves."""
    top, bottom, down = _neighbours(image.shape[0], height)
    left, right, across = _neighbours(image.shape[1], width)
    down, across = down[:, None, None], across[None, :, None]
    values = image.astype(np.float64)
    above = values[top][:, left] * (1 - across) + values[top][:, right] * across
    below = values[bottom][:, left] * (1 - across) + values[bottom][:, right] * across
    return np.rint(above * (1 - down) + below * down).astype(np.uint8)


def _neighbours(
    source: int, target: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    at = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
    low = np.floor(at).astype(np.intp)
    return low, np.minimum(low + 1, source - 1), at - low


def crop(step: Crop, image: Image) -> Image:
    """Return the centre of an image; raises SampleError if the image is smaller."""
    height, width = image.shape[:2]
    if height < step.height or width < step.width:
        raise SampleError(
            f"The image has {height} x {width} pixels, and {step.height} x {step.width} are to be "
            "cut out: resize it before."
        )
    top, left = (height - step.height) // 2, (width - step.width) // 2
    return image[top : top + step.height, left : left + step.width]
