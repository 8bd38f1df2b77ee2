"""What the newest measurements of a node say about the load that it can generate."""

from collections.abc import Iterator, Sequence

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure
from inferometer_api.results.lateness import LAG_LEAST_NS

MOST_STILL = 0.05
"""The largest share of standstills of a running process that is no fault."""
MOST_STOLEN = 0.01
"""The largest share of CPU time that the hypervisor may give to other guests."""


def newest_figure(
    documents: Sequence[NodeCharacteristics], name: str, **setting: str
) -> tuple[NodeFigure, str] | None:
    """Return a figure of the last document that has it, and the day of its measurement."""
    for document in reversed(documents):
        found = document.figure(name, **setting)
        if found is not None:
            return found, document.started_at[:10]
    return None


def load_generation_faults(documents: Sequence[NodeCharacteristics]) -> Iterator[str]:
    """Yield why latencies that this node measures may be wrong, one sentence each.

    `documents` are its measurements that have not expired, the earliest first.
    """
    if (still := newest_figure(documents, "jitter/share")) and still[0].value > MOST_STILL:
        yield _fault(f"a running process stood still for {still[0].value:.1%} of the time", still)
    stolen = newest_figure(documents, "steal")
    if stolen and stolen[0].value > MOST_STOLEN:
        yield _fault(f"the hypervisor gave {stolen[0].value:.1%} of the CPU time to others", stolen)
    late = newest_figure(documents, "timer/wakeUpLag", percentile="99")
    if late and late[0].value > LAG_LEAST_NS:
        yield _fault(f"a timer of 1 ms was late by {late[0].value / 1e6:.2f} ms (p99)", late)


def _fault(what: str, found: tuple[NodeFigure, str]) -> str:
    return (
        f"When `inferometer node` measured this machine on {found[1]}, {what}. Latencies that are "
        "measured from here contain that. If it has changed, measure the machine again."
    )
