"""HTTP endpoint by which operators remove serving images from a node."""

import asyncio
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import ValidationError

from inferometer_api.nodes.image_removal import (
    REMOVAL_PATH,
    ImageRemovalAnswer,
    ImageRemovalRequest,
)
from inferometer_telemetry.images.caller_check import CallerCheck, ReviewFailedError
from inferometer_telemetry.images.cri_client import CriClient, RuntimeFailedError
from inferometer_telemetry.images.removal import RemovalRefusedError, find_removable
from inferometer_telemetry.log import log

_MOST_BYTES = 16 << 10
_BEARER = "Bearer "


@dataclass(slots=True)
class RemovalEndpoint:
    """Removes images at the request of a known operator, one request at a time."""

    runtime: CriClient
    check: CallerCheck
    operators: Collection[str]
    """User names of the service accounts that may remove images."""
    repositories: Collection[str]
    """Repositories of the images that may be removed."""
    pause_seconds: float
    """Between two removals."""
    clock: Callable[[], float] = time.monotonic
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _next: float = -math.inf

    def application(self) -> web.Application:
        """Return the routes."""
        pages = web.Application(client_max_size=_MOST_BYTES)
        pages.router.add_post(REMOVAL_PATH, self._remove)
        pages.router.add_get("/healthz", self._health)
        return pages

    async def _health(self, _: web.Request) -> web.Response:
        try:
            await self.runtime.images()
        except RuntimeFailedError as error:
            return _error(503, str(error))
        return web.json_response({"healthy": True})

    async def _remove(self, request: web.Request) -> web.Response:
        if (denied := await self._denial(request)) is not None:
            return denied
        try:
            wanted = ImageRemovalRequest.model_validate_json(await request.read())
        except ValidationError as error:
            return _error(400, f"The request is not valid: {error.errors()[0]['msg']}.")
        async with self._lock:
            wait_seconds = self._next - self.clock()
            if wait_seconds > 0:
                after = {"Retry-After": str(math.ceil(wait_seconds))}
                sentence = f"Images are removed once in {self.pause_seconds:g} s at most."
                return web.json_response({"error": sentence}, status=429, headers=after)
            self._next = self.clock() + self.pause_seconds
            try:
                answer = await self._carry_out(wanted)
            except RemovalRefusedError as error:
                return _error(409 if error.in_use else 403, str(error))
            except RuntimeFailedError as error:
                return _error(502, str(error))
        return web.json_response(answer.model_dump(mode="json", by_alias=True))

    async def _denial(self, request: web.Request) -> web.Response | None:
        """Return why the caller may not remove images, None if it may."""
        header = request.headers.get("Authorization", "")
        if not header.startswith(_BEARER):
            return _error(401, "The request has no bearer token.")
        try:
            caller = await self.check.caller(header.removeprefix(_BEARER))
        except ReviewFailedError as error:
            return _error(503, str(error))
        if caller is None:
            return _error(401, "The token is not valid here.")
        if caller not in self.operators:
            return _error(403, f"{caller} is none of the operators of the chart's values.")
        return None

    async def _carry_out(self, wanted: ImageRemovalRequest) -> ImageRemovalAnswer:
        """Remove the images, and make sure that they are gone."""
        found = find_removable(
            wanted.images,
            self.repositories,
            await self.runtime.images(),
            await self.runtime.uses(),
        )
        for image in {each.id: each for each in found.values()}.values():
            await self.runtime.remove(image.id)
            log("info", "image_removed", id=image.id, names=", ".join(sorted(image.names)))
        left = {each.id for each in await self.runtime.images()}
        for name, image in found.items():
            if image.id in left:
                raise RuntimeFailedError(f"The container runtime still has {name}.")
        absent = [each for each in wanted.images if each not in found]
        return ImageRemovalAnswer(removed=list(found), absent=absent)


def _error(status: int, sentence: str) -> web.Response:
    return web.json_response({"error": sentence}, status=status)
