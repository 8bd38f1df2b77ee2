"""What does a figure of energy cover, in words?"""

from collections.abc import Iterable, Iterator

from inferometer_api.results.result import Energy
from inferometer_api.status.run_status import Attribution

COVERS: dict[Attribution, str] = {
    "dedicated": "all energy of the counters is the servers': they took at least 95 % of the "
    "node's busy CPU time, or had the GPU to themselves",
    "shared": "the servers' part of the counters' energy, by CPU seconds on CPUs and by GPU time "
    "on GPUs",
    "node": "all energy of the node's counters: which part is the servers' is not known",
    "estimated": "the servers' CPU seconds times a power that the run states; no counter was read",
}
"""What each attribution of a figure means, as a sentence without its period."""

_NET = (
    "gross less the servers' part of the idle power, which is that before warm-up with the "
    "servers ready and no load"
)
"""What net means, as a sentence without its period."""
_BELOW_ZERO = "; below zero the load is lost in the noise of the idle power"


def explained(used: Iterable[Attribution]) -> tuple[tuple[Attribution, str], ...]:
    """Return each attribution that is used, once and in a fixed order, with what it means."""
    found = set(used)
    return tuple((word, meaning) for word, meaning in COVERS.items() if word in found)


def net_explained(nets: Iterable[int | None]) -> str:
    """Return what net means, nothing where no figure has one."""
    known = [net for net in nets if net is not None]
    if not known:
        return ""
    return _NET + _BELOW_ZERO * any(net < 0 for net in known)


def notes_of(energy: Energy) -> Iterator[str]:
    """Yield why the energy is unavailable or what it leaves out: sentences without their period."""
    if energy.attribution == "unavailable":
        why = energy.reason.strip().rstrip(".")
        yield f"unavailable: {why}" if why else "unavailable: no reason was given"
    for each in energy.not_covered:
        yield f"not covered: {each.strip().rstrip('.')}"


def mean_milliwatts(energy: Energy) -> float | None:
    """Return the mean power of all its counters within the window; None without counters."""
    if not energy.domains or not energy.window_nanoseconds:
        return None
    return sum(each.domain_microjoules for each in energy.domains) / energy.window_nanoseconds * 1e6
