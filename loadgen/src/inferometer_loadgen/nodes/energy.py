"""Energy of a step, and what that figure covers.

It is the difference of counters from the window's first sample to its last, node by node. Energy
without a source is unavailable with a reason, never zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferometer_api.plan.load_plan import LoadPlan
from inferometer_api.results.result import Energy, EnergyDomain
from inferometer_api.status.run_status import Attribution
from inferometer_loadgen.nodes.energy_domains import counted_ns, estimated, node_energy
from inferometer_loadgen.nodes.window import NodeWindow, gpus_busy

WEAKEST_LAST: tuple[Attribution, ...] = ("dedicated", "shared", "node", "estimated")
DISABLED = "power measurement is disabled"
NOTED_APART, MOST_APART = 0.02, 0.1
"""Shares of the load's window by which the counters' window may differ: before that is noted, and
at most."""
_NO_AGENT = "no node agent is named in the plan"


@dataclass(frozen=True, slots=True)
class EnergyTerms:
    """What a run requires of energy, and what prevents it."""

    disabled: bool
    unmetered: str
    """Why not every server has an agent."""
    milliwatts_per_core: int | None
    on_gpu: bool
    external: bool = False
    """Whether it is unknown what the servers run on."""


def energy_terms(plan: LoadPlan) -> EnergyTerms:
    """Return the terms of a plan."""
    spec = plan.run.spec
    return EnergyTerms(
        disabled=spec.telemetry.power == "Disabled",
        unmetered=plan.energy_unavailable_reason or ("" if plan.agents else _NO_AGENT),
        milliwatts_per_core=spec.telemetry.estimated_milliwatts_per_core,
        on_gpu=spec.server.device == "GPU",
        external=not plan.launched,
    )


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The work that the energy was used for."""

    inferences: int
    """Samples answered between the window's edges, as the energy is of that time."""
    duration_ns: int
    server_cpu_seconds: float | None
    """Of servers on this machine, if no agent reports it."""


def energy(windows: Sequence[NodeWindow], terms: EnergyTerms, worked: WorkDone) -> Energy:
    """Return the energy of a window; `windows` has one entry for each node that servers run on."""
    if terms.disabled:
        return _unavailable(DISABLED)
    if terms.unmetered or not windows:
        return _without_agents(terms, worked)
    faults = [fault for window in windows for fault in _faults(window, worked.duration_ns)]
    if faults:
        return _unavailable("; ".join(faults))
    nodes = [
        node_energy(
            window,
            on_gpu=terms.on_gpu or (terms.external and gpus_busy(window)),
            milliwatts_per_core=terms.milliwatts_per_core,
        )
        for window in windows
    ]
    without = [node.why_none for node in nodes if node.why_none]
    if without:
        return _unavailable("; ".join(without))
    not_covered = [
        sentence
        for node, window in zip(nodes, windows, strict=True)
        for sentence in (*node.not_covered, *_apart(window, worked.duration_ns, NOTED_APART))
    ]
    counted = max(counted_ns(window) for window in windows)
    return _sum([each for node in nodes for each in node.domains], not_covered, counted, worked)


def _faults(window: NodeWindow, duration_ns: int) -> list[str]:
    return [window.fault] if window.fault else _apart(window, duration_ns, MOST_APART)


def _apart(window: NodeWindow, duration_ns: int, share: float) -> list[str]:
    """Return a sentence if the counters' window differs from the load's by more than this share."""
    found = counted_ns(window)
    if abs(found - duration_ns) <= share * duration_ns:
        return []
    where, seconds, window_seconds = (
        f"the counters of {window.node}",
        found / 1e9,
        duration_ns / 1e9,
    )
    return [f"{where} were read {seconds:.4g} s apart, the window is {window_seconds:.4g} s long"]


def _unavailable(reason: str) -> Energy:
    return Energy(attribution="unavailable", reason=reason)


def _without_agents(terms: EnergyTerms, worked: WorkDone) -> Energy:
    """Return an estimate if that was chosen and the CPU time is known here."""
    seconds, milliwatts = worked.server_cpu_seconds, terms.milliwatts_per_core
    if not seconds or milliwatts is None:
        return _unavailable(terms.unmetered or _NO_AGENT)
    domain = estimated("", seconds * 1e6, milliwatts)
    left_out = [f"no GPU is covered ({terms.unmetered})"] if terms.on_gpu else []
    return _sum([domain], left_out, worked.duration_ns, worked)


def _sum(
    domains: list[EnergyDomain], not_covered: list[str], counted: int, worked: WorkDone
) -> Energy:
    gross = sum(each.microjoules for each in domains)
    nets = [each.net_microjoules for each in domains if each.net_microjoules is not None]
    idles = [each.baseline_milliwatts for each in domains if each.baseline_milliwatts is not None]
    whole = len(nets) == len(idles) == len(domains)
    net = sum(nets) if whole else None
    return Energy(
        attribution=max((each.attribution for each in domains), key=WEAKEST_LAST.index),
        microjoules=gross,
        microjoules_per_inference=_each(gross, worked.inferences),
        baseline_milliwatts=sum(idles) if whole else None,
        net_microjoules=net,
        net_microjoules_per_inference=None if net is None else _each(net, worked.inferences),
        window_nanoseconds=counted,
        domains=domains,
        not_covered=not_covered,
    )


def _each(microjoules: int, inferences: int) -> int | None:
    return round(microjoules / inferences) if inferences else None
