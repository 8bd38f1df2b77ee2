"""The colours of the report, light and dark.

The five series remain distinguishable from each other and from the background under protanopia,
deuteranopia and tritanopia; a test computes this from the values.
"""

from typing import Literal

Theme = Literal["light", "dark"]

SERIES_COUNT = 5
"""So many lines, at most, stand in one chart."""

PALETTE: dict[Theme, dict[str, str]] = {
    "light": {
        "page": "#f6f6f4",
        "card": "#ffffff",
        "inset": "#f1f1ee",
        "text": "#1b1d20",
        "muted": "#565c66",
        "rule": "#dddedb",
        "grid": "#e8e9e6",
        "good": "#0f6b3a",
        "good-soft": "#e6f3ea",
        "bad": "#b3201b",
        "bad-soft": "#fbeae8",
        "warn": "#7d5200",
        "warn-soft": "#fbf1dc",
        "on-badge": "#ffffff",
        "series-1": "#034ab0",
        "series-2": "#b85b0e",
        "series-3": "#0a734c",
        "series-4": "#964083",
        "series-5": "#633908",
    },
    "dark": {
        "page": "#111315",
        "card": "#1a1d21",
        "inset": "#22262b",
        "text": "#e8eaed",
        "muted": "#a3aab4",
        "rule": "#31363d",
        "grid": "#2a2f35",
        "good": "#5fd08d",
        "good-soft": "#16291e",
        "bad": "#ff8b80",
        "bad-soft": "#331a19",
        "warn": "#f0bf57",
        "warn-soft": "#2d2413",
        "on-badge": "#111315",
        "series-1": "#5b8df5",
        "series-2": "#f17844",
        "series-3": "#bfe5da",
        "series-4": "#d983c7",
        "series-5": "#f3e24b",
    },
}


def css_variables(theme: Theme) -> str:
    """Return the theme's colours as CSS declarations."""
    return "".join(f"--{name}:{colour};" for name, colour in PALETTE[theme].items())
