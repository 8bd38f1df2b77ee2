"""Errors of tasks; each message is a sentence or more."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TaskRefusedError(ValueError):
    """A manifest, data set or metric does not fit; the message says what to change."""


class SampleError(ValueError):
    """One sample cannot be processed; others may be."""


@contextmanager
def confine_to_sample(action: str, *sentences: type[Exception]) -> Iterator[None]:
    """Turn any exception into a SampleError: one sample must not end a whole run.

    `action` names what failed, for unforeseen errors; the messages of `sentences` stay as they are.
    TaskRefusedError passes, because it concerns every sample.
    """
    try:
        yield
    except (SampleError, TaskRefusedError):
        raise
    except sentences as error:
        raise SampleError(str(error)) from error
    except Exception as error:  # whatever a library raises
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise SampleError(
            f"Internal error in {action}: {error!r} ({Path(frame.filename).name}, line "
            f"{frame.lineno})."
        ) from error
