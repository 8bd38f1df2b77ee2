"""Errors of tasks; each message is a sentence or more."""


class TaskRefusedError(ValueError):
    """A manifest, data set or metric does not fit; the message says what to change."""


class SampleError(ValueError):
    """One sample cannot be processed; others may be."""
