"""How is one node agent asked, beside a measurement that must not notice?

The request's bytes are made once, the connection is kept, and an answer is kept as the bytes that
came: asking costs the loop one write and one read.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast
from urllib.parse import quote, urlsplit

from typing_extensions import override

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import AGENT_PORT, SAMPLE_PATH
from inferometer_loadgen.nodes.window import AgentAnswer
from inferometer_loadgen.wire.http1.parser import ReplyParser

ANSWERS_WITHIN_SECONDS = 2.0
MOST_BYTES = 256 * 1024
"""An agent of 64 targets and 16 GPUs answers with some 30 KiB; 600 answers of a step are kept."""

Take = Callable[[AgentAnswer], None]


class AgentClient:
    """Asks one agent, one question at a time; no fault of the agent's raises anything here."""

    def __init__(self, agent: PlannedAgent, clock: Callable[[], int]) -> None:
        self.agent = agent
        self.given_up = ""
        """Why the agent is asked no more; empty while it is."""
        self.late_in_a_row = 0
        """Edges that it has not answered in time since it last answered one."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._host, self._port, self._request = "", 0, b""
        try:
            self._host, self._port, self._request = _request(agent)
        except ValueError as error:
            self.given_up = str(error)
        self._parser = ReplyParser()
        self._wire: _Wire | None = None
        self._wires: set[_Wire] = set()
        self._dialing: asyncio.Task[None] | None = None
        self._dials: set[asyncio.Task[None]] = set()
        self._deadline: asyncio.TimerHandle | None = None
        self._take: Take | None = None
        self._waiting: deque[Take] = deque()
        self._sent_ns = 0
        self._received = 0
        self._answered = False
        self._settled: asyncio.Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a question is out."""
        return self._take is not None

    def ask(self, take: Take) -> None:
        """Ask for a sample now, or as soon as the question before is answered.

        `take` is called once, with the answer or with why there is none: within 2 s, and as many
        again for each question before.
        """
        if self._take is not None:
            self._waiting.append(take)
            return
        now = self._clock()
        if self.given_up:
            take(AgentAnswer(now, now, fault=self.given_up))
            return
        self._take = take
        self._sent_ns = now
        self._deadline = self._loop.call_later(ANSWERS_WITHIN_SECONDS, self._expire)
        if self._wire is not None:
            self._send(self._wire)
        else:
            self._dial()

    async def settled(self) -> None:
        """Wait until every question is answered, or given up after its 2 s."""
        if self._take is not None:
            if self._settled is None:
                self._settled = self._loop.create_future()
            await asyncio.shield(self._settled)

    async def close(self) -> None:
        """Hang up; what was asked is forgotten."""
        self._take = None
        self._waiting.clear()
        if self._deadline is not None:
            self._deadline.cancel()
        for dial in self._dials:
            dial.cancel()
        if self._dials:
            await asyncio.wait(self._dials)
        wires = tuple(self._wires)
        for wire in wires:
            wire.abort()
        await asyncio.gather(*(wire.gone for wire in wires))

    # -- the connection --------------------------------------------------------------------------

    def _dial(self) -> None:
        self._answered = False
        self._dialing = self._loop.create_task(self._connect())
        self._dials.add(self._dialing)
        self._dialing.add_done_callback(self._dials.discard)

    async def _connect(self) -> None:
        try:
            wire = (await self._loop.create_connection(self._new_wire, self._host, self._port))[1]
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that is no host name
            self._fail(f"cannot be reached ({error})")
            return
        self._wire = wire
        if self._take is not None:
            self._send(wire)

    def _new_wire(self) -> "_Wire":
        return _Wire(self, self._wires, self._loop.create_future())

    def _send(self, wire: "_Wire") -> None:
        self._parser.start(True)
        self._received = 0
        wire.write(self._request)

    def received(self, wire: "_Wire", data: bytes) -> None:
        """Take what was read from a connection."""
        if wire is not self._wire:
            return
        self._received += len(data)
        if self._take is None:
            self._drop()  # nothing was asked
        elif self._received > MOST_BYTES:
            self._drop()
            self._fail(f"answered with more than {MOST_BYTES} bytes")
        elif self._parser.feed(data):
            self._complete()

    def lost(self, wire: "_Wire", error: Exception | None) -> None:
        """Take that a connection is gone."""
        if wire is not self._wire:
            return
        self._wire = None
        if self._take is None:
            return
        if self._answered and not self._received:
            self._dial()  # a kept connection may be given up just when it is used again
        elif self._parser.finish("the connection was closed", clean=error is None):
            self._complete()

    def _complete(self) -> None:
        parser = self._parser
        self._answered = True
        if not parser.reusable:
            self._drop()
        if parser.reply is not None:
            self._finish(AgentAnswer(self._sent_ns, self._clock(), parser.reply.body))
        else:
            said = "" if parser.failure is None else parser.failure.message.rstrip(".")
            self._fail(f"gave no sample: {said or 'its answer is empty'}")

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()

    # -- the question that is out ----------------------------------------------------------------

    def _expire(self) -> None:
        if self._dialing is not None:
            self._dialing.cancel()
        self._drop()
        # Who waits behind is asked for anew, on a connection of its own and with time of its own.
        self._fail(_LATE, timed_out=True)

    def _fail(self, fault: str, *, timed_out: bool = False) -> None:
        self._finish(AgentAnswer(self._sent_ns, self._clock(), fault=fault, timed_out=timed_out))

    def _finish(self, answer: AgentAnswer) -> None:
        take, self._take = self._take, None
        if self._deadline is not None:
            self._deadline.cancel()
        if take is not None:
            take(answer)
        while self._waiting and self._take is None:
            self.ask(self._waiting.popleft())
        if self._settled is not None and self._take is None:
            self._settled.set_result(None)
            self._settled = None


class _Wire(asyncio.Protocol):
    """One connection; `gone` is done when it is closed."""

    def __init__(
        self, line: AgentClient, open_wires: set["_Wire"], gone: asyncio.Future[None]
    ) -> None:
        self._line = line
        self._open_wires = open_wires
        self.gone = gone
        self._transport: asyncio.Transport | None = None

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open_wires.add(self)

    @override
    def data_received(self, data: bytes) -> None:
        self._line.received(self, data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._open_wires.discard(self)
        self.gone.set_result(None)
        self._line.lost(self, exc)


_LATE = f"did not answer within {ANSWERS_WITHIN_SECONDS:g} s"


def _request(agent: PlannedAgent) -> tuple[str, int, bytes]:
    """Return host, port and the bytes of a request; raises ValueError with what is wrong."""
    parts = urlsplit(agent.url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"has the address {agent.url!r}, which is not http://HOST:PORT")
    port = parts.port or AGENT_PORT
    asked = "&".join(
        [
            *(f"pod={quote(uid, safe='')}" for uid in agent.pod_uids),
            *(f"process={process_id}" for process_id in agent.process_ids),
        ]
    )
    path = parts.path.rstrip("/") + SAMPLE_PATH + (f"?{asked}" if asked else "")
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "User-Agent: inferometer",
        "Accept: application/json",
    ]
    return parts.hostname, port, "\r\n".join([*lines, "", ""]).encode("ascii")
