"""Reads raw objects of the API server by their models."""

from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from inferometer_api.document import Document
from inferometer_api.rules import format_path
from inferometer_api.spec.problems import Problem, describe_errors
from inferometer_operator.reconcile.observed import Json

_METADATA = ("name", "namespace", "labels", "uid", "generation", "creationTimestamp")
"""The metadata that the models read; the rest may be large."""
_Model = TypeVar("_Model", bound=Document)


class InvalidObjectError(ValueError):
    """An object is not valid; `problems` has a sentence for each field at fault."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def read_object(raw: Json, model: type[_Model], *, is_accepted: bool) -> _Model:
    """Return a raw object without its status. Raises InvalidObjectError.

    An object that is accepted may have been accepted by a newer version: fields of its spec that
    this version does not know are ignored.
    """
    metadata = raw["metadata"]
    data: dict[str, Any] = {
        "apiVersion": raw.get("apiVersion"),
        "kind": raw.get("kind"),
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": raw.get("spec"),
    }
    extra: Literal["forbid", "ignore"] = "ignore" if is_accepted else "forbid"
    try:
        return model.model_validate(data, extra=extra, by_alias=True, by_name=False)
    except ValidationError as error:
        found = dict.fromkeys(describe_errors(error, data, model))
        raise InvalidObjectError(
            [str(Problem(format_path(where), message)) for where, message in found]
        ) from error
