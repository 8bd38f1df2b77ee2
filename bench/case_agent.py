"""The case agent-overhead: the CPU and memory of a node agent."""

import http.client
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from sys import executable
from threading import Event
from uuid import UUID

from bench.case import Case, Figures, Place, Row, Side, Source, Turn, Unit
from bench.figures import Bound
from bench.processes import BenchError, Child, start_child

from inferometer_api.results.agent_sample import SAMPLE_PATH
from support.recorded_node import RecordedNode
from support.recorded_pods import QosClass

_AGENT = "node agent"
_CPUS, _PACKAGES, _PODS = 64, 2, 100
_SECONDS = 60.0
_WARM_SAMPLES = 3
_SCRAPE_EVERY = 5
_FEW_PODS, _MANY_PODS = 2, 32
_PERCENT = Unit(" %", 2, scale=100)
_MEBIBYTES = Unit(" MiB", 1, scale=2**-20)
_GOAL = (Bound("figure", "at most", 0.01),)
_CLASSES: tuple[QosClass, ...] = ("guaranteed", "burstable", "besteffort")


def _cost(pods: int) -> str:
    return f"CPU seconds a second, {pods} pods sampled"


def _memory(pods: int) -> str:
    return f"resident bytes, {pods} pods sampled"


class _AskedAgent:
    """An agent that is sampled for some pods every second and scraped every fifth."""

    def __init__(self, child: Child, uids: list[str]) -> None:
        self._child = child
        self._connection = http.client.HTTPConnection("127.0.0.1", child.read()["port"], timeout=10)
        self._path = f"{SAMPLE_PATH}?" + "&".join(f"pod={uid}" for uid in uids)
        self._pods = len(uids)
        self._began = 0.0

    def ask(self, path: str = "") -> None:
        self._connection.request("GET", path or self._path)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise BenchError(f"The agent answered {answer.status}: {self._child.last_words()}")

    def second(self, number: int) -> None:
        self.ask()
        if number % _SCRAPE_EVERY == 0:
            self.ask("/metrics")

    def begin(self) -> None:
        self._began = self._child.cpu_seconds()

    def cost(self, seconds: float) -> Figures:
        return {
            _cost(self._pods): (self._child.cpu_seconds() - self._began) / seconds,
            _memory(self._pods): self._child.resident_bytes(),
        }

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
    del sides  # there is one
    node, uids = _machine(place.folder)
    with ExitStack() as stack:
        agents = []
        for pods in (_FEW_PODS, _MANY_PODS):
            command = [executable, "-m", "inferometer_telemetry", "--port", "0", *node.options]
            child = stack.enter_context(
                start_child(f"agent-{pods}", command, core=place.server_core, folder=place.folder)
            )
            agent = _AskedAgent(child, uids[:pods])
            stack.callback(agent.close)
            agents.append(agent)
        for agent in agents * _WARM_SAMPLES:
            agent.ask()
        yield {_AGENT: lambda: _minute(agents)}


def _machine(folder: Path) -> tuple[RecordedNode, list[str]]:
    """Record a machine with a sensor for each core, and its pods."""
    node = RecordedNode(folder / "node", cpus=_CPUS, packages=_PACKAGES)
    node.add_sensors(_CPUS)
    uids = [str(UUID(int=number + 1)) for number in range(_PODS)]
    for number, uid in enumerate(uids):
        node.add_pod(uid, _CLASSES[number % 3])
    return node, uids


def _minute(agents: list[_AskedAgent]) -> Figures:
    for agent in agents:
        agent.begin()
    began = time.monotonic()
    waiting = Event()
    for number in range(int(_SECONDS)):
        for agent in agents:
            agent.second(number)
        waiting.wait(max(0.0, began + number + 1 - time.monotonic()))
    seconds = time.monotonic() - began
    return {name: value for agent in agents for name, value in agent.cost(seconds).items()}


AGENT_OVERHEAD = Case(
    name="agent-overhead",
    title="What a node agent takes: one sample a second, 64 CPUs, 100 pods",
    text=f"""\
The CPU time of the node agent's process, user and system, as part of one core over a minute: it
takes a sample every second by itself, answers one `GET {SAMPLE_PATH}` a second as for a load
generator, and one `GET /metrics` every five seconds as a Prometheus does. The machine is a
recorded one, so that it can be larger than the one measured on: {_CPUS} CPUs with a frequency and
a sensor each, {_PACKAGES} packages with memory, {_PODS} pods in control groups v2; no GPU.

Its files lie on a disk's cache: what real counters take inside the kernel beyond that (a
processor answers for its energy in microseconds) is not in the figure. One agent samples
{_FEW_PODS} pods, as a run with two servers on a node does, another one in the same minute for
{_MANY_PODS} (at most 64 per request). Nothing is left out: Prometheus and JSON are written, and
HTTP answered, by the same process.""",
    commands=(".venv/bin/python bench/run.py --case agent-overhead",),
    sides=(Side(_AGENT),),
    stage=_stage,
    minutes=3.5,
    repeats=3,
    rows=(
        Row(
            f"Part of one core, {_FEW_PODS} pods",
            Source(_AGENT, _cost(_FEW_PODS)),
            _PERCENT,
            goal=_GOAL,
        ),
        Row(
            f"Part of one core, {_MANY_PODS} pods",
            Source(_AGENT, _cost(_MANY_PODS)),
            _PERCENT,
            goal=_GOAL,
        ),
        Row(f"Resident memory, {_FEW_PODS} pods", Source(_AGENT, _memory(_FEW_PODS)), _MEBIBYTES),
        Row(f"Resident memory, {_MANY_PODS} pods", Source(_AGENT, _memory(_MANY_PODS)), _MEBIBYTES),
    ),
)
