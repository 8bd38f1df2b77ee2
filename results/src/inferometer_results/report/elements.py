"""The SVG elements that charts consist of. markupsafe escapes their text.

A page has thousands of them: `%` takes a third of the time of `format`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from inferometer_results.report.axis import Floats

Truths = npt.NDArray[np.bool_]


def path(style: str, steps: str, name: str, values: tuple[str, ...], present: Truths) -> Markup:
    """Return a path; with values, the words of its present points for the pointer."""
    hover = Markup("")
    if values:
        indices = "" if present.all() else ",".join(map(str, np.flatnonzero(present).tolist()))
        shown = attribute_text([v for v, here in zip(values, present, strict=True) if here])
        hover = Markup(' data-n="%s" data-v="%s" data-i="%s"') % (name, shown, indices)
    return Markup('<path class="%s" d="%s"%s/>') % (style, steps, hover)


def steps_through(xs: Floats, ys: Floats, present: Truths) -> str:
    """Return the steps of a line through the present points, broken at the others."""
    steps, pen_down = [], False
    for x, y, here in zip(xs.tolist(), ys.tolist(), present.tolist(), strict=True):
        if here:
            steps.append(f"{'L' if pen_down else 'M'}{x:.1f},{y:.1f}")
        pen_down = here
    return "".join(steps)


def attribute_text(texts: Sequence[str]) -> str:
    """Return texts as one attribute."""
    return "|".join(text.replace("|", "/") for text in texts)


def stroke(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    """Return a straight line."""
    return Markup('<path class="%s" d="M%.1f,%.1fL%.1f,%.1f"/>') % (style, x1, y1, x2, y2)


def written(style: str, x: float, y: float, text: str) -> Markup:
    """Return a text."""
    return Markup('<text class="%s" x="%.1f" y="%.1f">%s</text>') % (style, x, y, text)
