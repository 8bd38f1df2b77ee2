"""The questions that the service puts to the API server: who a token is, and what a caller may."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inferometer_api.crd import GROUP, PLURAL
from inferometer_api.results.service_paths import AUDIENCE
from inferometer_results.service.access.front_proxy import Identity

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - an address


Verb = Literal["create", "get", "patch", "delete"]


@dataclass(frozen=True, slots=True)
class RunAccess:
    """A right to the BenchmarkRuns of a namespace, "" for those of all namespaces."""

    verb: Verb
    namespace: str
    subresource: str = ""


def access_review(identity: Identity, right: RunAccess) -> dict[str, Any]:
    """Return the SubjectAccessReview of a right."""
    attributes = {
        "group": GROUP,
        "resource": PLURAL,
        "verb": right.verb,
        "namespace": right.namespace,
        "subresource": right.subresource,
    }
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": identity.user,
            "uid": identity.uid,
            "groups": list(identity.groups),
            "extra": {key: list(values) for key, values in identity.extra},
            "resourceAttributes": attributes,
        },
    }


def is_allowed(review: Mapping[str, Any]) -> bool:
    """Return whether an answered SubjectAccessReview grants the right; doubt denies it."""
    status = review.get("status") or {}
    return status.get("allowed") is True and status.get("denied") is not True


def token_review(token: str) -> dict[str, Any]:
    """Return the TokenReview of a pod's token."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }


def token_identity(review: Mapping[str, Any]) -> Identity | None:
    """Return the bearer of a token by its answered TokenReview, None if it is not for us.

    An authenticator that knows nothing of audiences leaves them out of its answer.
    """
    status = review.get("status") or {}
    if status.get("authenticated") is not True or AUDIENCE not in (status.get("audiences") or ()):
        return None
    user = status.get("user") or {}
    return Identity(
        str(user.get("username") or ""),
        str(user.get("uid") or ""),
        tuple(user.get("groups") or ()),
        tuple(sorted((key, tuple(some)) for key, some in (user.get("extra") or {}).items())),
    )
