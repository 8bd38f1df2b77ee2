"""What does a run's load generator say, and how is it told to end?

Its pod is a run's own and may say anything: answers are bounded, redirects never followed.
"""

from dataclasses import dataclass

import aiohttp
from pydantic import ValidationError

from inferometer_api.plan.cluster_objects import LOADGEN_PORT
from inferometer_api.plan.load_report import LoadReport

_LIMIT_BYTES = 1 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


@dataclass(frozen=True, slots=True)
class LoadgenClient:
    """Speaks to load generators at their pods' addresses."""

    session: aiohttp.ClientSession
    port: int = LOADGEN_PORT

    async def report(self, address: str) -> LoadReport | None:
        """Return what it answers at /progress; None where no sensible answer comes."""
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
        """Ask it to end and hand over what it measured; return whether it said that it will."""
        try:
            async with self.session.post(
                self._url(address, "stop"),
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
