"""Liveness and readiness of the operator, and the HTTP server for them."""

import asyncio
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from inferometer_api.metrics.exposition import CONTENT_TYPE

ALIVE_SECONDS: Final = 30.0
"""An event loop whose last tick is older hangs."""
HEARD_SECONDS: Final = 330.0
"""A watch is reopened after 290 s at the latest: without a sign for longer it is dead."""
_TICK_SECONDS = 1.0


class Health:
    """Times of the event loop's last tick and of each watch's last sign."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ticked = clock()
        self._last_event: dict[str, float | None] = {}
        self._watches_required = False

    async def tick(self) -> None:
        """Tick until cancelled."""
        while True:
            self._ticked = self._clock()
            await asyncio.sleep(_TICK_SECONDS)

    def require_watches(self, *watches: str) -> None:
        """Be ready only while all of these watches give signs."""
        self._watches_required = True
        self._last_event = dict.fromkeys(watches)

    def record_watch(self, watch: str) -> None:
        """Record that a watch was opened or delivered something."""
        self._last_event[watch] = self._clock()

    def alive(self) -> tuple[bool, str]:
        """Return whether the event loop runs, and a sentence about it."""
        age = self._clock() - self._ticked
        return age < ALIVE_SECONDS, f"The loop ticked {age:.1f} s ago."

    def ready(self) -> tuple[bool, str]:
        """Return whether all watches work, and a sentence about it; a standby is ready."""
        if not self._watches_required:
            return True, "Standby: another operator leads, or none yet."
        ages = {
            watch: None if at is None else self._clock() - at
            for watch, at in self._last_event.items()
        }
        text = ", ".join(
            f"{watch}: {'not yet' if age is None else f'{age:.0f} s ago'}"
            for watch, age in ages.items()
        )
        healthy = all(age is not None and age < HEARD_SECONDS for age in ages.values())
        return healthy, f"Leads; watches last heard: {text}."


async def serve(
    health: Health, page: Callable[[], bytes], port: int, token_file: Path | None = None
) -> web.AppRunner:
    """Serve /healthz, /readyz and /metrics on this port; the caller cleans up.

    With a token file, /metrics requires its content as bearer token: metrics name the namespaces of
    all runs.
    """

    async def healthz(_: web.Request) -> web.Response:
        return _answer(*health.alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(*health.ready())

    async def metrics(request: web.Request) -> web.Response:
        if token_file is not None and not _bears(request, token_file):
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        return web.Response(body=page(), headers={"Content-Type": CONTENT_TYPE})

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    # The kubelet and Prometheus come from outside of the pod, by IPv4 or IPv6.
    await web.TCPSite(runner, None, port).start()
    return runner


def _bears(request: web.Request, token_file: Path) -> bool:
    """Return whether a request has the token; the file is read anew, since Secrets change."""
    try:
        token = token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return False
    given = request.headers.get("Authorization", "")
    return bool(token) and hmac.compare_digest(
        given.encode(errors="surrogateescape"), f"Bearer {token}".encode()
    )


def _answer(healthy: bool, text: str) -> web.Response:  # noqa: FBT001 - the first half of a verdict
    return web.Response(status=200 if healthy else 503, text=f"{text}\n")
