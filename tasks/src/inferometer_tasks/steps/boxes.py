"""Steps on boxes: formats, and suppression of overlapping ones."""

import numpy as np
import numpy.typing as npt

from inferometer_api.manifest.output_steps import Boxes
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.sample import Array, Detections

Floats = npt.NDArray[np.float64]


def detections(
    step: Boxes, found: Array, scores: Array | None, classes: Array | None, scale: "Scale | None"
) -> Detections:
    """Return the best boxes in pixels of the sample's image; none if the model finds none.

    Without an image, `scale` is None, and the boxes have the model's own coordinates.

    `found` is [boxes, 4], or with the scores [boxes, 4 + classes]. `scores` is [boxes] or
    [boxes, classes], and `classes` is [boxes]. Raises TaskRefusedError if they do not fit, and
    SampleError if a score is NaN, or if a box that counts is no box or of no class.
    """
    if not found.size:
        empty = np.zeros(0, np.int64)
        return Detections(np.zeros((0, 4)), np.zeros(0), empty)
    rows = found.reshape(-1, found.shape[-1] if found.ndim else 1).astype(np.float64)
    if scores is None:
        if rows.shape[1] < 5:
            raise TaskRefusedError(
                f"boxes names no output with scores, and the rows have {rows.shape[1]} columns: "
                "name it in boxes.scores."
            )
        rows, scores = rows[:, :4], rows[:, 4:]
    if rows.shape[1] != 4:
        raise TaskRefusedError(f"A box has 4 numbers, but the rows have {rows.shape[1]}.")
    table = _score_table(scores, len(rows))
    if np.isnan(table).any():
        raise SampleError(
            f"The model has {int(np.isnan(table).sum()):,} NaN among {table.size:,} scores of "
            "boxes: they cannot be compared."
        )
    best = table.max(axis=1)
    if classes is not None and classes.size != len(rows):
        raise TaskRefusedError(
            f"The model gives {len(rows)} boxes and {classes.size} classes: name the output with "
            "one class per box in boxes.classes."
        )
    chosen = np.flatnonzero(best >= step.score_threshold)
    _check_finite(rows[chosen])
    kinds = table.argmax(axis=1)[chosen] if classes is None else _whole(classes.ravel()[chosen])
    corners = _corners(step, rows[chosen])
    kept = suppressed(corners, best[chosen], kinds, step.iou_threshold)[: step.max_boxes]
    corners = corners[kept]
    return Detections(
        corners if scale is None else scale.to_image(corners, normalized=step.normalized),
        best[chosen][kept],
        kinds[kept].astype(np.int64),
    )


def _check_finite(rows: Floats) -> None:
    bad = rows[~np.isfinite(rows).all(axis=1)]
    if len(bad):
        raise SampleError(
            f"The model has {len(bad):,} boxes that are not finite, such as {bad[0].tolist()}: "
            "they cannot be compared."
        )


def _whole(classes: Array) -> npt.NDArray[np.int64]:
    """Return numbers of classes, which many models state as floats."""
    values = classes.astype(np.float64)
    bad = values[~((values == np.floor(values)) & (np.abs(values) < 2**53))]
    if bad.size:
        raise SampleError(
            f"The model has a box of class {bad[0]:g}, but classes are whole numbers: check "
            "boxes.classes."
        )
    return values.astype(np.int64)


def _score_table(scores: Array, count: int) -> Floats:
    """Return scores as [boxes, classes]; raises TaskRefusedError if their shape is another."""
    if scores.size == count:
        return scores.astype(np.float64).reshape(count, 1)
    columns = scores.shape[-1] if scores.ndim else 1
    if not columns or scores.size != count * columns:
        raise TaskRefusedError(
            f"The model gives {count} boxes and scores of the shape {list(scores.shape)}: "
            "boxes.scores needs an output [boxes, classes] or [boxes]."
        )
    return scores.astype(np.float64).reshape(count, columns)


class Scale:
    """How an image was resized to the model's input, to map boxes back."""

    def __init__(
        self, image: tuple[int, int], scaled: tuple[int, int], shape: tuple[int, int]
    ) -> None:
        self._image, self._scaled, self._shape = image, scaled, shape
        """Rows and columns of the image, of its scaled copy, and of the input with its padding."""

    def to_image(self, corners: Floats, *, normalized: bool) -> Floats:
        """Return corners in pixels of the image, within it."""
        pixels = corners * _xyxy(self._shape) if normalized else corners
        mapped = pixels * _xyxy(self._image) / _xyxy(self._scaled)
        bounded: Floats = np.clip(mapped, 0, _xyxy(self._image))
        return bounded


def _xyxy(size: tuple[int, int]) -> Floats:
    return np.array([size[1], size[0], size[1], size[0]], np.float64)


def _corners(step: Boxes, rows: Floats) -> Floats:
    a, b, c, d = rows.T
    match step.format:
        case "XYXY":
            return rows
        case "YXYX":
            return rows[:, [1, 0, 3, 2]]
        case "XYWH":
            return np.stack([a, b, a + c, b + d], axis=1)
        case _:
            return np.stack([a - c / 2, b - d / 2, a + c / 2, b + d / 2], axis=1)


def overlaps(one: Floats, others: Floats) -> Floats:
    """Return the intersection over union of a box [4] with others [n, 4]."""
    low = np.maximum(one[:2], others[:, :2])
    high = np.minimum(one[2:], others[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    whole = np.prod(one[2:] - one[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - common
    shares: Floats = np.divide(common, whole, out=np.zeros_like(common), where=whole > 0)
    return shares


def suppressed(
    corners: Floats, scores: Floats, classes: npt.NDArray[np.int64], threshold: float
) -> npt.NDArray[np.intp]:
    """Return the boxes that no better box of their class overlaps too much, the best first."""
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    alive = np.ones(len(scores), np.bool_)
    for each in order:
        if not alive[each]:
            continue
        kept.append(int(each))
        alike = classes == classes[each]
        alive &= ~(alike & (overlaps(corners[each], corners) > threshold))
    return np.asarray(kept, np.intp)
