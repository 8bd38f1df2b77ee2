"""Knee of a concurrency sweep: the number of clients with the best throughput for its latency.

It is the step with the greatest power, throughput over mean latency (L. Kleinrock, Power and
deterministic rules of thumb for probabilistic problems in computer communications, ICC 1979;
A. Giessler et al., Free buffer allocation, Computer Networks 2, 1978). Below it more clients raise
the throughput by more than the latency, in percent; beyond it by less.
"""

from collections.abc import Sequence

from inferometer_api.results.result import Step, nanoseconds_at
from inferometer_api.results.search import Knee


def find_knee(steps: Sequence[Step]) -> Knee | None:
    """Return the step with the greatest power; None if fewer than two steps got answers.

    Of steps with the same power it is the one with the fewest clients.
    """
    by_clients = sorted(
        (step for step in steps if _power(step) > 0), key=lambda step: step.clients or 0
    )
    if len(by_clients) < 2:
        return None
    best = max(by_clients, key=_power)
    return Knee(
        step=best.label,
        clients=best.clients or 0,
        qps=best.achieved_qps,
        p99_nanoseconds=nanoseconds_at(best.latency, 99.0),
        last_step=best is by_clients[-1],
    )


def _power(step: Step) -> float:
    if step.latency is None:
        return 0.0
    return step.achieved_qps / max(1, step.latency.mean_nanoseconds)
