"""Identification of callers by their tokens, through the API server's TokenReview."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from inferometer_api.nodes.image_removal import REMOVAL_AUDIENCE

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - an address
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


class ReviewFailedError(Exception):
    """The API server does not say who the caller is; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class CallerCheck:
    """Queries the API server with the pod's own token."""

    url: str
    """The API server: "https://10.0.0.1:443"."""
    authority_file: Path | None
    """Certificates that sign its own; None: those of the system."""
    token_file: Path
    """Read for each request, because it changes."""

    async def caller(self, token: str) -> str | None:
        """Return the name of a token's bearer, None if the token is not for us.

        Raises ReviewFailedError.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [REMOVAL_AUDIENCE]},
        }
        try:
            return _bearer(await self._post(body))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise ReviewFailedError(
                f"The API server at {self.url} cannot say who the caller is: {reason}."
            ) from error

    async def _post(self, body: dict[str, Any]) -> Any:
        own = self.token_file.read_text(encoding="utf-8").strip()
        tls = ssl.create_default_context(cafile=self.authority_file)
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.post(
                f"{self.url}{_TOKEN_REVIEWS}",
                json=body,
                ssl=tls,
                headers={"Authorization": f"Bearer {own}"},
                allow_redirects=False,
                raise_for_status=True,
            ) as answer,
        ):
            return await answer.json()


def service_account(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def _bearer(review: Any) -> str | None:
    """Return the bearer by an answered TokenReview; doubt denies.

    An authenticator that knows nothing of audiences leaves them out of its answer.
    """
    status = (review.get("status") or {}) if isinstance(review, dict) else {}
    known = status.get("authenticated") is True
    if not known or REMOVAL_AUDIENCE not in (status.get("audiences") or ()):
        return None
    return str((status.get("user") or {}).get("username") or "") or None
