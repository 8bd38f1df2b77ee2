"""HTTP client of a run's load generator.

The pod belongs to the run and may send anything: answers are bounded, redirects not followed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import LOADGEN_PORT
from inferometer_api.plan.load_plan import ServerTargets
from inferometer_api.plan.load_report import LoadReport

_LIMIT_BYTES = 1 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


@dataclass(frozen=True, slots=True)
class LoadgenClient:
    """Requests to load generators at their pods' addresses."""

    session: aiohttp.ClientSession
    port: int = LOADGEN_PORT
    check_write: Callable[[], None] = lambda: None
    """Called before a load generator is changed; it raises if this operator must not."""

    async def report(self, address: str) -> LoadReport | None:
        """Return the answer to GET /progress, or None if no valid one comes."""
        try:
            async with self.session.get(
                self._url(address, "progress"), allow_redirects=False, timeout=_TIMEOUT
            ) as answer:
                if answer.status != 200:
                    return None
                text = await answer.content.read(_LIMIT_BYTES)
                while len(text) < _LIMIT_BYTES and (
                    more := await answer.content.read(_LIMIT_BYTES)
                ):
                    text += more
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
        try:
            return LoadReport.read_json(text)
        except ValidationError:
            return None

    async def stop(self, address: str, token: str) -> bool:
        """Request the load generator to stop and write its result; return whether it accepts."""
        return await self._post(address, "stop", token, b"")

    async def hand_over(self, address: str, token: str, targets: ServerTargets) -> bool:
        """Give the servers of a repeat to the load generator; return whether it takes them."""
        return await self._post(address, "targets", token, targets.model_dump_json().encode())

    async def _post(self, address: str, word: str, token: str, body: bytes) -> bool:
        self.check_write()
        try:
            async with self.session.post(
                self._url(address, word),
                data=body,
                allow_redirects=False,
                timeout=_TIMEOUT,
                headers={"Authorization": f"Bearer {token}"},
            ) as answer:
                return answer.status < 300
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    def _url(self, address: str, word: str) -> str:
        host = f"[{address}]" if ":" in address else address
        return f"http://{host}:{self.port}/{word}"
