"""The parts of the time that servers spend on a request."""

from collections.abc import Iterable, Iterator

from inferometer_api.results.result import ServerTime, Step
from inferometer_results.quantity import duration, percent


def server_parts(spent: ServerTime) -> dict[str, int]:
    """Return the mean nanoseconds of each part by its name, in the order of a request."""
    return {
        "queue": spent.queue_nanoseconds,
        "compute input": spent.compute_input_nanoseconds,
        "compute": spent.compute_infer_nanoseconds,
        "compute output": spent.compute_output_nanoseconds,
    }


def step_parts(spent: ServerTime) -> dict[str, int]:
    """Return the mean nanoseconds of each step around the model by its name, in their order."""
    return {each.step: each.nanoseconds for each in spent.steps}


def pipeline_sentences(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the shares of latency of the steps in the server, and the requests that they failed."""
    for step in steps:
        spent = step.server_time
        if spent is None or not spent.steps:
            continue
        label = f"{step.label}: " if step.label else ""
        yield f"{label}{_shares(step, spent)}"
        failed = [f"{each.failed:,} in {each.step}" for each in spent.steps if each.failed]
        if failed:
            yield f"{label}Requests failed in steps in the server: {', '.join(failed)}."


def _shares(step: Step, spent: ServerTime) -> str:
    parts = step_parts(spent) | {"the model": spent.compute_infer_nanoseconds}
    others = sum(server_parts(spent).values()) - spent.compute_infer_nanoseconds
    in_server = spent.total_nanoseconds
    parts["queue, reading and writing"] = others
    whole, name = in_server, "mean time in the server"
    if step.latency is not None:
        whole, name = step.latency.mean_nanoseconds, "mean latency"
        parts["client and network"] = max(0, whole - in_server)
    shares = ", ".join(
        f"{part} {duration(each)} ({percent(each / whole if whole else 0)})"
        for part, each in parts.items()
    )
    return f"Of the {name} of {duration(whole)}: {shares}."
