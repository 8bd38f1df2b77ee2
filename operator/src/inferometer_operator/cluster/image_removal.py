"""HTTP client of the image removers, which free a node from images before a cold start."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from pydantic import ValidationError

from inferometer_api.nodes.image_removal import (
    REMOVAL_PATH,
    REMOVAL_SUFFIX,
    ImageRemovalAnswer,
    ImageRemovalRequest,
)
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.agent_assignment import agent_url
from inferometer_operator.reconcile.observed import NOT_REMOVED
from inferometer_operator.settings import Agents

_TIMEOUT = aiohttp.ClientTimeout(total=90.0, sock_connect=5.0)
"""The runtime of the node deletes some gigabytes."""
_LIMIT_BYTES = 64 << 10
_UNAVAILABLE = 503
"""The code of every refusal: it may pass."""


@dataclass(frozen=True, slots=True)
class ImageRemovalClient:
    """Requests to the image remover of a node, with the operator's token for it."""

    session: aiohttp.ClientSession
    reader: Reader
    agents: Agents
    token_file: Path
    """Read before each request, because it changes."""
    check_write: Callable[[], None] = lambda: None
    """Called before each request; it raises if this operator must not write."""

    async def remove(self, node: str, images: Sequence[str]) -> ApiError | None:
        """Remove images from a node; return why not all of them are gone, None if they are."""
        self.check_write()
        namespace, service = self.agents.namespace, f"{self.agents.service}{REMOVAL_SUFFIX}"
        try:
            url = agent_url(await self.reader.list_endpoint_slices(namespace, service), node)
        except ApiUnreachableError as error:
            return _refusal(node, str(error))
        except ApiError as error:
            return _refusal(node, error.message)
        if url is None:
            return _refusal(
                node,
                f"no image remover is ready there (Service {service} in the namespace {namespace})",
            )
        return await self._request(f"{url}{REMOVAL_PATH}", node, images)

    async def _request(self, url: str, node: str, images: Sequence[str]) -> ApiError | None:
        wanted = ImageRemovalRequest(images=list(images)).model_dump_json().encode()
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            async with self.session.post(
                url, data=wanted, headers=headers, allow_redirects=False, timeout=_TIMEOUT
            ) as answer:
                text = await answer.content.read(_LIMIT_BYTES)
                if answer.status != 200:
                    return _refusal(node, _reason(text) or f"status {answer.status}")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return _refusal(node, str(error) or type(error).__name__)
        return None if _is_done(text, images) else _refusal(node, "it answers otherwise")


def _is_done(text: bytes, images: Sequence[str]) -> bool:
    try:
        answer = ImageRemovalAnswer.read_json(text)
    except ValidationError:
        return False
    return set(images) <= {*answer.removed, *answer.absent}


def _reason(text: bytes) -> str:
    """Return the sentence in the answer to a request that was refused."""
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get("error") or "")[:500] if isinstance(found, dict) else ""


def _refusal(node: str, why: str) -> ApiError:
    message = f"The server's images are not removed from {node}: {why}".rstrip(".")
    return ApiError(_UNAVAILABLE, NOT_REMOVED, message)
