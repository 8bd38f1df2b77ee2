"""Client of one node agent: one sample per request, one request at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import AGENT_PORT, SAMPLE_PATH
from inferometer_loadgen.nodes.window import AgentAnswer

ANSWERS_WITHIN_SECONDS = 2.0
MOST_BYTES = 256 * 1024
"""An agent of 64 workloads and 16 GPUs answers with some 30 KiB; a step keeps 600 answers."""
_HEADERS = {
    "User-Agent": "inferometer",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
}
_LATE = f"did not answer within {ANSWERS_WITHIN_SECONDS:g} s"


class AgentClient:
    """Requests samples of one agent. No fault of the agent raises anything here.

    An answer is kept as the bytes that arrived: nothing is parsed while the load is measured.
    """

    def __init__(self, agent: PlannedAgent, clock: Callable[[], int]) -> None:
        self.agent = agent
        self.given_up = ""
        """Why no more samples are requested; empty while they are."""
        self.late_in_a_row = 0
        """Edges that the agent did not answer in time since the last that it did."""
        self._clock = clock
        self._url = URL()
        try:
            self._url = _sample_url(agent)
        except ValueError as error:
            self.given_up = str(error)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=1),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        self._callbacks: deque[Callable[[AgentAnswer], None]] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is outstanding."""
        return self._task is not None

    def sample(self, callback: Callable[[AgentAnswer], None]) -> None:
        """Request a sample now, or as soon as the previous request is answered.

        `callback` is called once, with the answer or with the reason why there is none: within
        2 s, plus 2 s for each request that waits before it.
        """
        if self._task is None and self.given_up:
            callback(self._given_up_answer())
            return
        self._callbacks.append(callback)
        if self._task is None:
            self._task = asyncio.create_task(self._answer_all())

    async def wait_until_settled(self) -> None:
        """Wait until every request is answered, or given up after its 2 s."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Close the connection and drop outstanding requests."""
        self._callbacks.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._session.close()

    async def _answer_all(self) -> None:
        try:
            while self._callbacks:
                callback = self._callbacks.popleft()
                callback(self._given_up_answer() if self.given_up else await self._answer())
        finally:
            self._task = None

    def _given_up_answer(self) -> AgentAnswer:
        now = self._clock()
        return AgentAnswer(now, now, fault=self.given_up)

    async def _answer(self) -> AgentAnswer:
        sent_ns = self._clock()
        body, fault, timed_out = b"", "", False
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_SECONDS):
                body, fault = await self._request()
        except TimeoutError:
            fault, timed_out = _LATE, True
        except aiohttp.ClientConnectorError as error:
            fault = f"cannot be reached ({error.strerror or error})"
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, OSError):
            fault = "gave no sample: the connection was closed"
        except (aiohttp.ClientError, ValueError) as error:
            fault = f"gave no sample: its answer is not HTTP ({_first_line(error)})"
        return AgentAnswer(sent_ns, self._clock(), body, fault=fault, timed_out=timed_out)

    async def _request(self) -> tuple[bytes, str]:
        """Return the body of an answer, or an empty one and what is wrong with the answer."""
        async with self._session.get(self._url, headers=_HEADERS, allow_redirects=False) as answer:
            if answer.status != 200:
                status = f"{answer.status} {answer.reason or ''}".rstrip()
                return b"", f"gave no sample: HTTP status {status}"
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > MOST_BYTES:
                    return b"", f"answered with more than {MOST_BYTES} bytes"
            return bytes(body), ""


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(":")


def _sample_url(agent: PlannedAgent) -> URL:
    """Return the URL of an agent's samples; raises ValueError that says what is wrong with it."""
    parts = urlsplit(agent.url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"has the address {agent.url!r}, which is not http://HOST:PORT")
    return URL.build(
        scheme="http",
        host=parts.hostname,
        port=parts.port or AGENT_PORT,
        path=parts.path.rstrip("/") + SAMPLE_PATH,
        query=[
            *(("pod", uid) for uid in agent.pod_uids),
            *(("process", str(process_id)) for process_id in agent.process_ids),
        ],
    )
