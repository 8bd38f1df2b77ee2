"""Time that servers spent on requests, by the protocol's statistics extension."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferometer_api.results.result import ServedStep, ServerTime

EXTENSION = "statistics"
_AROUND_STEPS = ("sample", "fit")
"""What our server does before the steps and between them and the model, if a request fails in
it: reading the sample, and making the model's inputs."""
_PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


@dataclass(frozen=True, slots=True)
class ServerCounters:
    """The counters of a model since its server's start, over all of its versions."""

    requests: int = 0
    """Requests that were answered."""
    executions: int = 0
    """Runs of the model."""
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often each part of a request was counted, and its nanoseconds in all."""
    steps: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """How often each step around the model was counted, its nanoseconds in all, and how often it
    failed; of other servers their entries of the same extension."""


def read_counters(document: Any) -> ServerCounters | None:
    """Return the counters in a server's answer as JSON; None if it is not what the protocol says.

    Over gRPC the numbers are strings.
    """
    try:
        models = [(each, each["inference_stats"]) for each in document["model_stats"]]
        return ServerCounters(
            requests=sum(_number(stats, "success", "count") for _, stats in models),
            executions=sum(int(model.get("execution_count", 0)) for model, _ in models),
            parts={
                part: (
                    sum(_number(stats, part, "count") for _, stats in models),
                    sum(_number(stats, part, "ns") for _, stats in models),
                )
                for part in _PARTS
            },
            steps=_steps([model for model, _ in models]),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _steps(models: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int, int]]:
    found = {}
    for model in models:
        for name, stats in (model.get("response_stats") or {}).items():
            figures = (("success", "count"), ("success", "ns"), ("fail", "count"))
            count, ns, failed = (_number(stats, *each) for each in figures)
            found[str(name)] = (count, ns, failed)
    return found


def server_time(
    begin: Sequence[ServerCounters | None],
    end: Sequence[ServerCounters | None],
    steps: Sequence[str] = (),
) -> ServerTime | None:
    """Return the means over the requests between two samples of each server.

    `steps` are the steps around the model that the servers run, in their order.
    None if a sample is missing, no request was answered, or counters were reset by a restart.
    """
    pairs = list(zip(begin, end, strict=True))
    known = [(was, now) for was, now in pairs if was is not None and now is not None]
    requests = sum(now.requests - was.requests for was, now in known)
    if len(known) < len(pairs) or requests <= 0 or any(_is_reset(*pair) for pair in known):
        return None
    spent = ServerTime(
        requests=requests,
        executions=sum(now.executions - was.executions for was, now in known),
        queue_nanoseconds=_mean("queue", known),
        compute_input_nanoseconds=_mean("compute_input", known),
        compute_infer_nanoseconds=_mean("compute_infer", known),
        compute_output_nanoseconds=_mean("compute_output", known),
        steps=_served_steps(steps, known),
    )
    return spent.with_shares(spent.total_nanoseconds)


def _number(stats: Mapping[str, Any], part: str, name: str) -> int:
    # Over gRPC a zero is left out.
    return int(stats.get(part, {}).get(name, 0))


def _is_reset(was: ServerCounters, now: ServerCounters) -> bool:
    return (
        now.requests < was.requests
        or now.executions < was.executions
        or any(
            after < before
            for part in _PARTS
            for before, after in zip(was.parts[part], now.parts[part], strict=True)
        )
    )


def _mean(part: str, known: Iterable[tuple[ServerCounters, ServerCounters]]) -> int:
    count = nanoseconds = 0
    for was, now in known:
        count += now.parts[part][0] - was.parts[part][0]
        nanoseconds += now.parts[part][1] - was.parts[part][1]
    return round(nanoseconds / count) if count else 0


def _served_steps(
    names: Sequence[str], known: Sequence[tuple[ServerCounters, ServerCounters]]
) -> list[ServedStep]:
    around = [_step(name, known) for name in (_AROUND_STEPS if names else ())]
    return [*(_step(name, known) for name in names), *(each for each in around if each.failed)]


def _step(name: str, known: Iterable[tuple[ServerCounters, ServerCounters]]) -> ServedStep:
    none = (0, 0, 0)
    count = nanoseconds = failed = 0
    for was, now in known:
        before, after = was.steps.get(name, none), now.steps.get(name, none)
        count += after[0] - before[0]
        nanoseconds += after[1] - before[1]
        failed += after[2] - before[2]
    mean = round(nanoseconds / count) if count else 0
    return ServedStep(step=name, nanoseconds=mean, failed=max(0, failed))
