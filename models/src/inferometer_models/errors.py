"""Error of a model that cannot be used."""


class ModelRefusedError(ValueError):
    """A model cannot be used: not found, damaged, too large, or unfit for its runtime."""
