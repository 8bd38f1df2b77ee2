"""Energy is shared as documented, and unknown energy is never a figure."""

from dataclasses import replace
from typing import Any

import pytest

from inferometer_api.results.agent_sample import EnergyReading, GpuReading, GpuUse, MissingSource
from inferometer_loadgen.nodes.energy import DISABLED, EnergyTerms
from inferometer_loadgen.nodes.window import NodeWindow, TimedSample
from support.energy_windows import (
    METERED,
    POD,
    SECOND,
    TEN_SECONDS,
    a_package,
    cpu,
    found,
    gpu_counter,
    gpu_terms,
    package,
    target,
    window,
)


@pytest.mark.parametrize(
    ("used", "attribution", "share"),
    [
        (950_000, "dedicated", 1.0),
        (949_999, "shared", 0.949999),
        (1, "shared", 0.000001),
        (2_000_000, "dedicated", 1.0),  # two clocks tick at different moments
        (0, "node", 1.0),  # a server that answers uses CPU time
        (None, "node", 1.0),
    ],
)
def test_cpu_energy_is_shared_by_cpu_seconds(
    used: int | None, attribution: str, share: float
) -> None:
    """From 95 % of the busy CPU time on all is the servers'; an unknown share is the node's."""
    step_energy = found(a_package(100, busy=1_000_000, used=used))
    (domain,) = step_energy.domains
    assert (step_energy.attribution, domain.attribution) == (attribution, attribution)
    assert domain.share == pytest.approx(share)
    assert domain.domain_microjoules == 100_000_000
    assert step_energy.microjoules == domain.microjoules == round(share * 100_000_000)
    assert step_energy.microjoules_per_inference == round(share * 100_000)


def test_the_idle_power_is_taken_off_by_share() -> None:
    """Net is the share of what exceeds the idle power times the window."""
    step_energy = found(a_package(400, busy=1_000_000, used=500_000, idle_watts=10))
    assert step_energy.baseline_milliwatts == 10_000
    assert step_energy.microjoules == 200_000_000
    assert step_energy.net_microjoules == (400 - 10 * 10) * 1_000_000 // 2
    assert step_energy.net_microjoules_per_inference == 150_000
    below = found(a_package(80, busy=1_000_000, used=500_000, idle_watts=10))
    assert below.net_microjoules == -10_000_000


def test_without_idle_time_there_is_no_net() -> None:
    """Where one counter has no baseline, neither has the sum."""
    assert found(a_package(100, busy=1, used=1)).net_microjoules is None
    both = found(
        a_package(100, busy=1, used=1, idle_watts=1), a_package(100, busy=1, used=1, node="m")
    )
    assert both.microjoules == 200_000_000
    assert (both.net_microjoules, both.baseline_milliwatts) == (None, None)


def test_an_idle_time_across_a_restart_gives_no_power() -> None:
    """Counters of two starts of an agent, or of two methods, are never compared."""
    whole = a_package(100, busy=1, used=1, idle_watts=1)
    assert whole.idle is not None
    before, after = whole.idle
    integral = [package(5_000_000).model_copy(update={"method": "PowerIntegral"})]
    for changed in ({"instance": "another"}, {"energy": integral}):
        later = TimedSample(after.at_ns, after.sample.model_copy(update=changed))
        step_energy = found(replace(whole, idle=(before, later)))
        assert (step_energy.microjoules, step_energy.baseline_milliwatts) == (100_000_000, None)


def test_counters_that_cover_each_other_are_listed_one_by_one() -> None:
    """Packages and their memory are summed up, each with its own figures."""

    def both(joules: int) -> list[EnergyReading]:
        dram = EnergyReading(
            domain="package-0-dram", kind="Dram", method="Counter", microjoules=joules * 100_000
        )
        return [package(joules * 1_000_000), dram]

    first, last = {"energy": both(0)}, {"energy": both(30)}
    step_energy = found(window(first, last))
    assert [each.domain for each in step_energy.domains] == ["package-0", "package-0-dram"]
    assert step_energy.microjoules == 33_000_000


def test_several_servers_of_a_node_count_together() -> None:
    """Two replicas on a node have the sum of their CPU seconds; one unknown makes it the node's."""
    first = {"energy": [package(0)], "cpu": cpu(0), "workloads": [target(0), target(0, "pod-2")]}
    last = {"energy": [package(10_000_000)], "cpu": cpu(1000)}
    both = [target(300), target(200, "pod-2")]
    step_energy = found(window(first, {**last, "workloads": both}, targets=2))
    assert (step_energy.attribution, step_energy.microjoules) == ("shared", 5_000_000)
    back = [target(1), target(900, "pod-2")]
    step_energy = found(
        window(
            {**first, "workloads": [target(2), target(0, "pod-2")]},
            {**last, "workloads": back},
            targets=2,
        )
    )
    assert step_energy.attribution == "node"  # a server's CPU time never goes back
    another = [both[0], both[1].model_copy(update={"start_ticks": 9})]
    step_energy = found(window(first, {**last, "workloads": another}, targets=2))
    assert step_energy.attribution == "node"  # a process that took another's ID
    step_energy = found(window(first, {**last, "workloads": both[:1]}, targets=2))
    assert (step_energy.attribution, step_energy.microjoules) == ("node", 10_000_000)


# -- GPUs -------------------------------------------------------------------------------------


def a_gpu_window(*, uses: bool = True, used: int | None = 600, **gpu: Any) -> NodeWindow:
    """Return a window in which a GPU took 500 J and was busy for 1,000 microseconds."""
    readings = {"uuid": "GPU-0", "index": 0, "name": "H100", "foreign": False, **gpu}
    none = [GpuUse(gpu_uuid="GPU-0", busy_microseconds=None if used is None else 0)]
    some = [GpuUse(gpu_uuid="GPU-0", busy_microseconds=used)]
    busy = readings.pop("busy", 1000)
    before = GpuReading(**readings, busy_microseconds=None if busy is None else 0)
    after = GpuReading(**readings, busy_microseconds=busy)
    return window(
        {
            "energy": [package(0), gpu_counter(0)],
            "cpu": cpu(0),
            "gpus": [before],
            "workloads": [target(0, gpus=none if uses else [])],
        },
        {
            "energy": [package(100_000_000), gpu_counter(500_000_000)],
            "cpu": cpu(1000),
            "gpus": [after],
            "workloads": [target(1000, gpus=some if uses else [])],
        },
    )


@pytest.mark.parametrize(
    ("gpu_fields", "attribution", "share"),
    [
        ({}, "dedicated", 1.0),
        ({"foreign": True}, "shared", 0.6),
        ({"foreign": None}, "shared", 0.6),
        ({"foreign": True, "used": None}, "node", 1.0),
        ({"foreign": True, "busy": None}, "node", 1.0),
        ({"foreign": True, "used": 0}, "node", 1.0),
        ({"foreign": False, "mig": True}, "node", 1.0),
        ({"foreign": True, "mig": True}, "node", 1.0),
    ],
)
def test_gpu_energy_is_shared_by_gpu_time(
    gpu_fields: dict[str, Any], attribution: str, share: float
) -> None:
    """A GPU without others' processes is the servers'; else by GPU time; with MIG of the node."""
    result = found(a_gpu_window(**gpu_fields), terms=gpu_terms())
    gpu = result.domains[1]
    assert (gpu.domain, gpu.attribution, gpu.share) == ("gpu-0", attribution, share)
    assert result.attribution == attribution
    assert result.microjoules == 100_000_000 + round(share * 500_000_000)
    assert result.not_covered == []


def test_a_foreign_process_that_came_and_went_counts() -> None:
    """A GPU that others used in the midst of the window is not dedicated."""
    edges = a_gpu_window()
    between = edges.last.gpus[0].model_copy(update={"foreign": True, "busy_microseconds": 500})
    middle = edges.last.model_copy(update={"gpus": [between], "monotonic_ns": 105 * SECOND})
    first, last = edges.samples
    node_window = NodeWindow("n", 1, (first, TimedSample(5 * SECOND, middle), last))
    assert found(node_window, terms=gpu_terms()).domains[1].attribution == "shared"


def test_a_gpu_that_was_cut_within_the_window_is_the_nodes() -> None:
    """One sample with instances is enough: the counters were of all of them then."""
    edges = a_gpu_window()
    cut = edges.last.model_copy(
        update={"gpus": [edges.last.gpus[0].model_copy(update={"mig": True})]}
    )
    step_energy = found(
        NodeWindow("n", 1, (edges.samples[0], TimedSample(10 * SECOND, cut))), terms=gpu_terms()
    )
    assert step_energy.domains[1].attribution == "node"


def test_a_gpu_without_a_process_of_the_servers_is_not_counted() -> None:
    """An idle GPU of the node does not count; a run on GPUs says that it saw none."""
    step_energy = found(a_gpu_window(uses=False))
    assert [each.domain for each in step_energy.domains] == ["package-0"]
    assert step_energy.not_covered == []
    step_energy = found(a_gpu_window(uses=False), terms=gpu_terms())
    assert step_energy.not_covered == ["the agent of n sees no process of the servers on a GPU"]


def test_a_gpu_without_a_counter_is_reported() -> None:
    """Where servers run on a GPU that has none, the energy says what it leaves out."""
    edges = a_gpu_window()
    samples = tuple(
        TimedSample(t.at_ns, t.sample.model_copy(update={"energy": t.sample.energy[:1]}))
        for t in edges.samples
    )
    step_energy = found(NodeWindow("n", 1, samples), terms=gpu_terms())
    assert step_energy.not_covered == ["gpu-0 of n has no counter"]
    assert step_energy.attribution == "dedicated"


def test_cpus_without_a_counter_are_reported() -> None:
    """Where a GPU has a counter and the CPUs have none, the sum says so, with the reason."""
    missing = MissingSource(source="rapl", reason="energy_uj is readable by root only")
    edges = a_gpu_window()
    samples = tuple(
        TimedSample(
            t.at_ns,
            t.sample.model_copy(update={"energy": t.sample.energy[1:], "missing": [missing]}),
        )
        for t in edges.samples
    )
    step_energy = found(NodeWindow("n", 1, samples), terms=gpu_terms())
    assert step_energy.microjoules == 500_000_000
    assert step_energy.not_covered == [
        "the CPUs of n have no counter (energy_uj is readable by root only)"
    ]


# -- unknown energy --------------------------------------------------------------------------


def test_disabled_power_is_not_measured() -> None:
    """Disabled power is unavailable, whatever the agents answered."""
    off = EnergyTerms(disabled=True, unmetered="", milliwatts_per_core=9, on_gpu=False)
    step_energy = found(a_package(100, busy=1, used=1), terms=off)
    assert (step_energy.attribution, step_energy.reason, step_energy.microjoules) == (
        "unavailable",
        DISABLED,
        None,
    )


def test_a_server_without_an_agent_leaves_no_energy() -> None:
    """Where not every server is metered, what the others took is no figure of the run."""
    terms = EnergyTerms(
        disabled=False, unmetered="no agent on n2", milliwatts_per_core=None, on_gpu=False
    )
    step_energy = found(a_package(100, busy=1, used=1), terms=terms)
    assert (step_energy.attribution, step_energy.reason, step_energy.domains) == (
        "unavailable",
        "no agent on n2",
        [],
    )


def test_a_node_without_a_source_reports_the_reason() -> None:
    """The agent's own reasons are quoted: of RAPL, and of NVML if the run is on GPUs."""
    missing = [
        MissingSource(source="rapl", reason="there is no powercap"),
        MissingSource(source="nvml", reason="there is no driver"),
    ]
    empty = window({"missing": missing}, {"missing": missing})
    step_energy = found(a_package(100, busy=1, used=1), empty)
    assert step_energy.attribution == "unavailable"
    assert step_energy.reason == "n has no source of energy figures (rapl: there is no powercap)"
    assert "nvml: there is no driver" in found(empty, terms=gpu_terms()).reason


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (5, 5, "the counter of package-0 of n stands still"),
        (5, 4, "the counter of package-0 of n stands still"),
        (5, 10**15, "the counter of package-0 of n jumped by 1e+09 J"),
        (None, 5, "the counter of package-0 of n was not there at the window's begin"),
    ],
)
def test_a_counter_that_cannot_be_believed_counts_nothing(
    before: int | None, after: int, why: str
) -> None:
    """One that stands still, jumps or appears is left out, and never a zero."""
    energies = [] if before is None else [package(before)]
    rest = package(1_000_000, "package-1")
    first = {"energy": [*energies, package(0, "package-1")]}
    step_energy = found(window(first, {"energy": [package(after), rest]}))
    assert step_energy.microjoules == 1_000_000
    assert why in step_energy.not_covered
    alone = found(window({"energy": energies}, {"energy": [package(after)]}))
    assert (alone.attribution, alone.microjoules) == ("unavailable", None)
    assert why in alone.reason


def test_two_methods_are_not_compared() -> None:
    """What one way of counting says less what another said is no energy."""
    before = [package(0).model_copy(update={"method": "PowerIntegral"}), package(0, "package-1")]
    after = [package(9_000_000), package(1_000_000, "package-1")]
    step_energy = found(window({"energy": before}, {"energy": after}))
    assert step_energy.microjoules == 1_000_000
    assert step_energy.not_covered == [
        "the counter of package-0 of n went over from PowerIntegral to Counter within the window"
    ]


def test_late_counters_are_reported() -> None:
    """More than 2 % between the counters' window and the load's is said, 10 % leave no energy."""
    on_time = found(a_package(100, busy=1, used=1), duration_ns=round(TEN_SECONDS / 1.0199))
    assert on_time.not_covered == []
    late = found(a_package(100, busy=1, used=1), duration_ns=round(TEN_SECONDS / 1.021))
    assert late.not_covered == [
        "the counters of n were read 10 s apart, the window is 9.794 s long"
    ]
    assert late.window_nanoseconds == TEN_SECONDS
    for duration_ns in (round(TEN_SECONDS / 1.0999), round(TEN_SECONDS / 0.9001)):
        assert found(a_package(100, busy=1, used=1), duration_ns=duration_ns).microjoules
    for duration_ns in (round(TEN_SECONDS / 1.1001), round(TEN_SECONDS / 0.8999), 0):
        off = found(a_package(100, busy=1, used=1), duration_ns=duration_ns)
        assert (off.attribution, off.microjoules_per_inference) == ("unavailable", None)
        assert off.reason.startswith("the counters of n were read 10 s apart, the window is ")


def test_an_estimate_is_made_only_by_choice_and_called_one() -> None:
    """CPU seconds times the stated power, where no counter covers the CPUs."""
    by_choice = EnergyTerms(disabled=False, unmetered="", milliwatts_per_core=5000, on_gpu=False)
    first = {"cpu": cpu(0), "workloads": [target(0)]}
    last = {"cpu": cpu(9), "workloads": [target(4_000_000)]}
    step_energy = found(window(first, last), terms=by_choice)
    assert (step_energy.attribution, step_energy.microjoules) == ("estimated", 20_000_000)
    assert step_energy.domains[0].method == "Estimate"
    assert found(window(first, last)).attribution == "unavailable"
    assert found(window(first, {"cpu": cpu(9)}), terms=by_choice).attribution == "unavailable"
    counted = found(a_package(100, busy=1, used=1), terms=by_choice)
    assert counted.domains[0].method == "Counter"


def test_an_estimate_needs_no_agent_where_the_server_is_here() -> None:
    """A local server's CPU seconds are known without an agent; elsewhere there is none."""
    terms = EnergyTerms(
        disabled=False, unmetered="no agent", milliwatts_per_core=5000, on_gpu=False
    )
    step_energy = found(terms=terms, server_cpu_seconds=4.0)
    assert (step_energy.attribution, step_energy.microjoules_per_inference) == ("estimated", 20_000)
    assert step_energy.window_nanoseconds == TEN_SECONDS
    assert found(terms=terms).reason == "no agent"


def test_without_an_inference_nothing_is_divided() -> None:
    """A window in which nothing was answered took energy, and none per inference."""
    step_energy = found(a_package(100, busy=1, used=1), inferences=0)
    assert step_energy.microjoules == 100_000_000
    assert step_energy.microjoules_per_inference is None


def on_a_gpu(busy: int, *, foreign: bool | None) -> dict[str, Any]:
    """Return the sample of a package and of a GPU whose processes belong to no target."""
    gpu_reading = GpuReading(
        uuid="GPU-0", index=0, name="L4", busy_microseconds=busy, foreign=foreign
    )
    return {"gpus": [gpu_reading], "cpu": cpu(busy)}


def test_of_a_node_without_targets_every_gpu_counts() -> None:
    """A server that cannot be separated from its node has the GPUs' energy with the packages'."""
    first = {**on_a_gpu(0, foreign=True), "energy": [package(0), gpu_counter(0)]}
    last = {
        **on_a_gpu(5_000_000, foreign=True),
        "energy": [package(42_000_000), gpu_counter(250_000_000)],
    }
    step_energy = found(window(first, last, targets=0))
    assert (step_energy.attribution, step_energy.microjoules) == ("node", 292_000_000)
    assert step_energy.not_covered == []


def test_a_busy_gpu_that_an_external_server_may_use_is_reported() -> None:
    """It is unknown what the server runs on, and whose processes the agent sees."""
    first = {**on_a_gpu(0, foreign=None), "energy": [package(0), gpu_counter(0)]}
    last = {
        **on_a_gpu(5_000_000, foreign=None),
        "energy": [package(42_000_000), gpu_counter(250_000_000)],
        "workloads": [target(1000)],
    }
    first["workloads"] = [target(0)]
    external = replace(METERED, external=True)
    step_energy = found(window(first, last), terms=external)
    assert step_energy.microjoules is not None
    assert step_energy.not_covered == ["the agent of n sees no process of the servers on a GPU"]
    assert found(window(first, last)).not_covered == []
    idle = {**last, **on_a_gpu(0, foreign=None)}
    assert found(window(first, idle), terms=external).not_covered == []


def test_the_reason_for_an_unknown_server_share_is_reported() -> None:
    """All energy of the node counts then, and the figure says why."""
    missing = [MissingSource(source="cgroup", subject=POD, reason="there is no such pod")]
    first = {"energy": [package(0)], "cpu": cpu(0)}
    last = {"energy": [package(42_000_000)], "cpu": cpu(9), "missing": missing}
    step_energy = found(window(first, last))
    assert step_energy.attribution == "node"
    assert step_energy.not_covered == [
        "the servers' part of n's CPU time is not known (there is no such pod)"
    ]
