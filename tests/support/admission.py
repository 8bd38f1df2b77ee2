"""Tries what an API server's admission refuses."""

import copy
from typing import Any

from inferometer_operator.manifests.owner import Manifest
from support.api_client import AnswerError, Api, Object, path_of


def refusal(api: Api, kind: str, namespace: str, body: Object) -> str:
    """Return how a creation that is only tried is refused, empty if it is not."""
    named = body if "metadata" in body else {"metadata": {"name": "tried"}, **body}
    try:
        api.ask("POST", path_of(kind, namespace), named, query={"dryRun": "All"})
    except AnswerError as error:
        return str(error)
    return ""


def changed(found: Manifest, path: tuple[str | int, ...], value: Any) -> Manifest:
    """Return a copy in which one field has another value; None removes it."""
    copied = copy.deepcopy(found)
    target: Any = copied
    for word in path[:-1]:
        target = target[word]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return copied
