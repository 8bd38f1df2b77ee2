"""The report's colours are distinguishable and readable for everyone, light and dark.

Colour blindness is simulated by the matrices of Machado, Oliveira and Fernandes (2009) at full
severity, differences are CIE 1976 in L*a*b*, contrast is that of WCAG 2.2.
"""

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from inferometer_results.report.palette import PALETTE, SERIES_COUNT, Theme

Triple = npt.NDArray[np.float64]

_SIGHTS: dict[str, Triple] = {
    "full": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])


def _linear(colour: str) -> Triple:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _lab(linear: Triple) -> Triple:
    ratio = _XYZ @ linear / _WHITE
    root = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def _difference(one: str, other: str, sight: Triple) -> float:
    seen = [_lab(np.clip(sight @ _linear(colour), 0, 1)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def _contrast(one: str, other: str) -> float:
    dim, bright = sorted(float(_XYZ[1] @ _linear(colour)) for colour in (one, other))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("sight", _SIGHTS)
def test_series_stay_apart(theme: Theme, sight: str) -> None:
    """Any two series differ by 15 units or more (2 are just noticeable), to every eye."""
    colours = [PALETTE[theme][f"series-{n}"] for n in range(1, SERIES_COUNT + 1)]
    for one, other in itertools.combinations(colours, 2):
        assert _difference(one, other, _SIGHTS[sight]) > 15, (one, other)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(theme: Theme) -> None:
    """Every text colour has a contrast of 4.5 to its background."""
    colours = PALETTE[theme]
    series = [f"series-{n}" for n in range(1, SERIES_COUNT + 1)]
    on = {
        "card": ["text", "muted", "bad", *series],
        "page": ["text", "muted", "bad"],
        "inset": ["text"],
        "good-soft": ["good", "text"],
        "bad-soft": ["bad", "text", "muted"],
        "warn-soft": ["warn", "text", "muted"],
        "on-badge": ["good", "bad", "warn"],
        "text": ["card"],
    }
    for behind, texts in on.items():
        for text in texts:
            assert _contrast(colours[behind], colours[text]) >= 4.5, (text, behind)
