"""Says in words what figures of energy cover."""

from collections.abc import Iterable, Iterator

from inferometer_api.results.result import Energy
from inferometer_api.status.run_status import Attribution

COVERS: dict[Attribution, str] = {
    "dedicated": "the servers get all energy of the counters: they used at least 95 % of the "
    "node's busy CPU time, or the GPU exclusively",
    "shared": "the servers get a share of the counters' energy, by CPU time on CPUs and by GPU "
    "time on GPUs",
    "node": "all energy of the node's counters; the servers' share is unknown",
    "estimated": "the servers' CPU time multiplied by a power from the spec; no counter was read",
}
"""What each attribution of a figure means, as a sentence without its period."""

_NET = (
    "gross energy minus the servers' share of the idle power, measured before warm-up with the "
    "servers ready and no load"
)
"""What net means, as a sentence without its period."""
_BELOW_ZERO = "; a negative figure means that the load is lost in the noise of the idle power"


def explained(used: Iterable[Attribution]) -> tuple[tuple[Attribution, str], ...]:
    """Return each attribution that is used, once and in a fixed order, with what it means."""
    found = set(used)
    return tuple((word, meaning) for word, meaning in COVERS.items() if word in found)


def net_explained(nets: Iterable[int | None]) -> str:
    """Return what net means; empty if no figure is net."""
    known = [net for net in nets if net is not None]
    if not known:
        return ""
    return _NET + _BELOW_ZERO * any(net < 0 for net in known)


def notes_of(energy: Energy) -> Iterator[str]:
    """Yield why energy is unavailable or what it does not cover: sentences without a period."""
    if energy.attribution == "unavailable":
        why = energy.reason.strip().rstrip(".")
        yield f"unavailable: {why}" if why else "unavailable: no reason given"
    for each in energy.not_covered:
        yield f"not covered: {each.strip().rstrip('.')}"


def mean_milliwatts(energy: Energy) -> float | None:
    """Return the mean power of all counters during the window; None without counters."""
    if not energy.domains or not energy.window_nanoseconds:
        return None
    return sum(each.domain_microjoules for each in energy.domains) / energy.window_nanoseconds * 1e6
