"""Errors of a model that cannot be used, or added to the zoo."""


class ModelRefusedError(ValueError):
    """A model cannot be used: not found, damaged, too large, or unfit for its runtime."""


class UnfitModelError(ValueError):
    """A graph that the zoo cannot hold; its message says what to export otherwise."""
