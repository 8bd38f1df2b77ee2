"""Samples of one node's agent around the window of one step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import AgentSample, WorkloadReading

_LONGEST_FAULT = 300
MOST_LISTED, MOST_CHARACTERS = 128, 512
"""Limits of any list and any text in a sample: the result may contain 600 of them."""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The answer to one request, or why there is none; times are of the load generator's clock."""

    sent_ns: int
    received_ns: int
    body: bytes = b""
    fault: str = ""
    """Why there is no body: what the agent did, "did not answer within 2 s"."""
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class StepAnswers:
    """The answers of one agent around one step; requests that were not sent are absent."""

    agent: PlannedAgent
    idle: tuple[AgentAnswer, AgentAnswer] | None
    """Both edges of the time without load."""
    begin: AgentAnswer | None
    between: Sequence[AgentAnswer]
    end: AgentAnswer | None


@dataclass(frozen=True, slots=True)
class TimedSample:
    """One sample and when it was taken, in nanoseconds from the window's begin."""

    at_ns: int
    sample: AgentSample


@dataclass(frozen=True, slots=True)
class NodeWindow:
    """The samples of one agent around one step."""

    node: str
    targets: int
    """How many servers it observes."""
    samples: tuple[TimedSample, ...]
    """Of one window; the first and the last are its edges unless there is a fault."""
    idle: tuple[TimedSample, TimedSample] | None = None
    fault: str = ""
    """Why the edges are not both known: a sentence without its period."""

    @property
    def first(self) -> AgentSample:
        """The sample at the window's begin."""
        return self.samples[0].sample

    @property
    def last(self) -> AgentSample:
        """The sample at the window's end."""
        return self.samples[-1].sample


def window_of(answers: StepAnswers, begin_ns: int) -> NodeWindow:
    """Return the samples around a window that began at `begin_ns` of the client's clock."""
    agent = answers.agent
    reader = _Reader(agent.node, begin_ns)
    begin, end = reader.edge(answers.begin, "begin"), reader.edge(answers.end, "end")
    between = [taken for answer in answers.between if (taken := reader.read(answer)[0])]
    samples = tuple(taken for taken in (begin, *between, end) if taken is not None)
    idle = None
    if answers.idle is not None:
        before, after = (reader.read(answer)[0] for answer in answers.idle)
        idle = None if before is None or after is None else (before, after)
    reported = next((taken.sample.node for taken in samples), "")
    where = f"the node agent of {agent.node or reported or agent.url}"
    fault = reader.fault or _unsteady(samples)
    return NodeWindow(
        node=agent.node or reported,
        targets=len(agent.pod_uids) + len(agent.process_ids),
        samples=samples,
        idle=idle,
        fault=f"{where} {fault}" if fault else "",
    )


class _Reader:
    """Reads the answers of one agent and keeps the reason why an edge is not known."""

    def __init__(self, node: str, begin_ns: int) -> None:
        self._node = node
        self._begin_ns = begin_ns
        self.fault = ""

    def edge(self, answer: AgentAnswer | None, which: str) -> TimedSample | None:
        """Read the answer at an edge of the window."""
        if answer is None:
            self.fault = self.fault or f"was not sampled at the window's {which}"
            return None
        taken, fault = self.read(answer)
        if fault:
            self.fault = self.fault or f"{fault} at the window's {which}"
        return taken

    def read(self, answer: AgentAnswer) -> tuple[TimedSample | None, str]:
        """Return the sample of an answer, or why it has none."""
        sample, fault = read_sample(answer, self._node)
        if sample is None:
            return None, fault
        middle = (answer.sent_ns + answer.received_ns) // 2
        return TimedSample(middle - self._begin_ns, sample), ""


def read_sample(answer: AgentAnswer, node: str = "") -> tuple[AgentSample | None, str]:
    """Return the sample of an answer, or what is wrong with it; `node` is the agent's node.

    Unknown fields are ignored: agents have releases of their own.
    """
    if answer.fault:
        return None, answer.fault
    try:
        sample = AgentSample.read_json(answer.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return None, f"answered what is no sample ({where}: {first['msg']})"[:_LONGEST_FAULT]
    if _exceeds(sample.model_dump()):
        most = f"{MOST_LISTED} entries or a text of more than {MOST_CHARACTERS} characters"
        return None, f"answered with a list of more than {most}"
    if node and sample.node and sample.node != node:
        return None, f"answered for another node, {sample.node}"[:_LONGEST_FAULT]
    return sample, ""


def _exceeds(value: object) -> bool:
    """Return whether any text or list within a value is too long."""
    match value:
        case str():
            return len(value) > MOST_CHARACTERS
        case dict():
            return any(map(_exceeds, value.values()))
        case list():
            return len(value) > MOST_LISTED or any(map(_exceeds, value))
        case _:
            return False


def _unsteady(samples: Sequence[TimedSample]) -> str:
    """Return why the counters of these samples cannot be compared; empty if they can."""
    if len({taken.sample.instance for taken in samples}) > 1:
        return "was restarted within the window"
    if samples[-1].sample.monotonic_ns <= samples[0].sample.monotonic_ns:
        return "has a clock that does not go on"
    return ""


def target_pairs(window: NodeWindow) -> Iterator[tuple[WorkloadReading, WorkloadReading]]:
    """Yield each server's readings at the window's begin and end, if both contain it."""
    before = {target_key(target): target for target in window.first.workloads}
    for target in window.last.workloads:
        if (known := before.get(target_key(target))) is not None:
            yield known, target


def target_cpu_microseconds(window: NodeWindow) -> int | None:
    """Return the CPU time of all servers on the node; None if that of one is not known."""
    used = [
        after.cpu_microseconds - before.cpu_microseconds for before, after in target_pairs(window)
    ]
    if not used or len(used) < window.targets or min(used) < 0:
        return None
    return sum(used)


def gpus_used(window: NodeWindow) -> set[str]:
    """Return the UUIDs of GPUs on which a server had a process within the window.

    If the agent observes no server, all GPUs that it reported: the node's counters count then.
    """
    if not window.targets:
        return {gpu.uuid for taken in window.samples for gpu in taken.sample.gpus}
    return {
        use.gpu_uuid
        for taken in window.samples
        for target in taken.sample.workloads
        for use in target.gpus
    }


def gpus_busy(window: NodeWindow) -> bool:
    """Return whether any GPU of the node was busy within the window, for any process."""
    first = {gpu.uuid: gpu.busy_microseconds or 0 for gpu in window.first.gpus}
    return any((gpu.busy_microseconds or 0) > first.get(gpu.uuid, 0) for gpu in window.last.gpus)


def target_key(target: WorkloadReading) -> tuple[str, int | None, int | None]:
    """Return the identity of a workload; it differs for the next process with the same ID."""
    return target.pod_uid, target.process_id, target.start_ticks
