"""Versions of the files of private models in their stores."""

from collections.abc import Callable
from typing import TypeAlias

from inferometer_api.spec.address import address
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.object_store import ObjectVersion, object_version
from inferometer_models.errors import ModelRefusedError

FindVersion: TypeAlias = Callable[[ModelRequest, str | None], ObjectVersion]
"""Returns the version of a model's ONNX file, or of its external data at a location."""


def version_in_store(request: ModelRequest, location: str | None) -> ObjectVersion:
    """Query a store for the version of a file; the request's keys have to be allowed to read it.

    Raises ModelRefusedError if they are not or there is no such file, and TransientError if the
    store does not answer.
    """
    what = f"model {request.uri}" if location is None else data_of(request, location)
    found = address(request.uri)
    if request.store is None or found is None:
        raise ModelRefusedError(f"The {what} has no store.")
    return object_version(what, request.store, found.place, key_of(found.path, location))


def data_of(request: ModelRequest, location: str) -> str:
    """Return what messages call external data."""
    return f"external data {location} of the model {request.uri}"


def key_of(model: str, location: str | None) -> str:
    """Return the key of a file in a store, from the key of its ONNX file."""
    if location is None:
        return model
    return f"{model.rpartition('/')[0]}/{location}".removeprefix("/")
