"""The models of a mix in words."""

from inferometer_api.results.result import ModelFigures


def model_with_share(figures: ModelFigures) -> str:
    """Return the name of a model with its planned share of the queries."""
    return f"{figures.model} ({100 * figures.share:.3g} %)"
