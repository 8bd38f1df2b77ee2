"""A node agent whose counters follow a law that is known beforehand, and which may be at fault.

It answers samples over HTTP in a thread of its own, on the clock of `time.monotonic_ns`.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import (
    AgentSample,
    CpuReading,
    EnergyReading,
    MissingSource,
    WorkloadReading,
)
from support.waiting import join_thread, wait_for_event

NODE = "worker-1"
SERVER_POD = "6f1c2f7e-0000-4000-8000-000000000001"

Fault = Literal[
    "silence", "cut", "garbage", "no sample", "status", "redirect", "endless", "restarted"
]
"""What an answer is instead of a sample: none at all, a lost connection, bytes that are no HTTP,
JSON that is no sample, an error, a way elsewhere, more than anybody wants, or the sample of an
agent that was started anew."""

Law = Callable[[float], AgentSample]
"""The sample, so many seconds after the agent's start."""


def a_sample(
    seconds: float,
    joules: dict[str, float],
    *,
    busy_cores: float = 2.0,
    target_cores: float | Sequence[float] | None = 1.0,
    pods: Sequence[str] = (SERVER_POD,),
    **more: Any,
) -> AgentSample:
    """Return the sample of a node whose CPUs were evenly busy since its agent's start."""
    cores = [target_cores] * len(pods) if isinstance(target_cores, float) else target_cores or []
    now = round(seconds * 1e9)
    fields: dict[str, Any] = {
        "agent_version": "0",
        "instance": "first",
        "node": NODE,
        "monotonic_ns": now,
        "unix_ns": now,
        "energy": [
            EnergyReading(
                domain=domain,
                kind="Dram" if domain.endswith("dram") else "Package",
                method="Counter",
                microjoules=round(each * 1e6),
            )
            for domain, each in joules.items()
        ],
        "cpu": CpuReading(
            count=4,
            busy_microseconds=round(busy_cores * seconds * 1e6),
            steal_microseconds=0,
            governor="performance",
        ),
        "workloads": [
            WorkloadReading(
                pod_uid=pod, cpu_microseconds=round(each * seconds * 1e6), memory_bytes=2**20
            )
            for pod, each in zip(pods, cores, strict=False)
        ],
    }
    return AgentSample(**{**fields, **more})


def steady(watts: float = 40.0, **more: Any) -> Law:
    """Return the law of a package that always takes the same power."""
    return lambda seconds: a_sample(seconds, {"package-0": 7 + watts * seconds}, **more)


def no_source(seconds: float) -> AgentSample:
    """Answer for a node without any counter of energy."""
    missing = MissingSource(source="rapl", reason="/sys/class/powercap has no package")
    return a_sample(seconds, {}, missing=[missing])


def never_at_fault(_number: int) -> Fault | None:
    """Answer every question well."""
    return None


@dataclass
class FakeAgent:
    """A running agent and the requests that it got."""

    law: Law = field(default_factory=steady)
    faults: Callable[[int], Fault | None] = never_at_fault
    """What is wrong with the answer to a question, by its number."""
    request_lines: list[str] = field(default_factory=list)
    """Each question's first line."""
    sampled: list[int] = field(default_factory=list)
    """When each sample was taken, in nanoseconds of its own clock."""
    connections: int = 0
    port: int = 0
    stop: Callable[[], None] = lambda: None
    """Die at once."""

    def planned(self, *pods: str, node: str = NODE) -> PlannedAgent:
        """Return how a plan names it."""
        return PlannedAgent(
            url=f"http://127.0.0.1:{self.port}", node=node, pod_uids=list(pods or (SERVER_POD,))
        )


@contextmanager
def answering(agent: FakeAgent) -> Iterator[FakeAgent]:
    """Run an agent in a thread until the end of the block, or until it dies."""
    started = threading.Event()
    faults: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(_serve(agent, started))
        except BaseException as fault:  # noqa: BLE001 - raised in the thread that waits
            faults.append(fault)
            started.set()

    thread = threading.Thread(target=work, name="agent")
    thread.start()
    try:
        wait_for_event(started, "the start of the agent")
        if faults:
            raise RuntimeError(f"The agent did not start: {faults}.")
        yield agent
    finally:
        agent.stop()
        join_thread(thread, "the end of the agent")


async def _serve(agent: FakeAgent, started: threading.Event) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    began_ns = time.monotonic_ns()
    writers: set[asyncio.StreamWriter] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        agent.connections += 1
        writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                agent.request_lines.append(request.partition(b"\r\n")[0].decode())
                fault = agent.faults(len(agent.request_lines) - 1)
                if fault == "cut":
                    break
                sample = agent.law((time.monotonic_ns() - began_ns) / 1e9)
                agent.sampled.append(sample.monotonic_ns)
                writer.write(_answer(sample, fault))
        writer.transport.abort()

    server = await asyncio.start_server(serve_one, "127.0.0.1", agent.port)
    agent.port = server.sockets[0].getsockname()[1]

    def stop() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(over.set)

    agent.stop = stop
    started.set()
    await over.wait()
    server.close()
    for writer in writers:
        writer.transport.abort()


_ANSWERS: dict[Fault, bytes] = {
    "garbage": b"\x16\x03\x01 this is no HTTP\r\n\r\n",
    "endless": b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + bytes(300_000),
}


def _answer(sample: AgentSample, fault: Fault | None) -> bytes:
    match fault:
        case None:
            return _http("200 OK", sample.model_dump_json(exclude_none=True).encode())
        case "restarted":
            return _answer(sample.model_copy(update={"instance": "second"}), None)
        case "no sample":
            return _http("200 OK", b'{"hello": "world"}')
        case "status":
            return _http("503 Service Unavailable", b"not now")
        case "redirect":
            return _http("302 Found", b"", "Location: http://127.0.0.1:1/elsewhere\r\n")
        case _:
            return _ANSWERS.get(fault, b"")


def _http(status: str, body: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
