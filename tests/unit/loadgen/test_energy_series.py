"""The result describes a node second by second, in bounded size."""

from typing import Any

import pytest

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import (
    AgentSample,
    EnergyReading,
    GpuReading,
    GpuUse,
    MissingSource,
    WorkloadReading,
)
from inferometer_api.results.result import NodeTelemetry, Step, UsageSample
from inferometer_loadgen.nodes.energy import EnergyTerms
from inferometer_loadgen.nodes.series import filled, served_cpu_seconds, telemetry_of
from inferometer_loadgen.nodes.window import (
    MOST_CHARACTERS,
    MOST_LISTED,
    AgentAnswer,
    NodeWindow,
    StepAnswers,
    TimedSample,
    read_sample,
    window_of,
)
from inferometer_loadgen.record.bounded_series import MOST_ENTRIES, BoundedSeries
from inferometer_loadgen.record.recorder import StepStatistics
from inferometer_loadgen.run.step_result import MeasuredTimes, Metered, Used, summarize
from inferometer_loadgen.schedule.steps import End, StepPlan
from support.energy_windows import POD, SECOND, cpu, sample
from support.fake_agent import a_sample


def at(second: float, joules: float = 0.0, **fields: Any) -> TimedSample:
    """Return a sample of that second of the window; the agent's own clock stands elsewhere."""
    made = a_sample(1000 + second, {"package-0": 500 + joules}, **fields)
    return TimedSample(round(second * SECOND), made)


def test_rates_are_those_since_the_sample_before() -> None:
    """Watts and cores are differences by the node's clock, in and before the window."""
    taken = (at(0, 10), at(1, 50), at(3, 250))
    telemetry = telemetry_of(NodeWindow("n", 1, taken, (at(-10), at(-8, 10))), on_gpu=False)
    assert [each.at_milliseconds for each in telemetry.samples] == [-8000, 0, 1000, 3000]
    assert [each.watts["package-0"] for each in telemetry.samples] == [5, 0, 40, 100]
    assert [each.cpu_cores for each in telemetry.samples] == [2.0] * 4
    assert [each.server_cpu_cores for each in telemetry.samples] == [1.0] * 4
    assert telemetry.server_cpu_seconds == pytest.approx(3)
    assert telemetry.server_throttled_seconds is None
    assert telemetry.steal_seconds == 0


def test_a_sample_right_after_another_has_no_rates() -> None:
    """The window's end just after a second's end counts for the energy, not for the series."""
    telemetry = telemetry_of(NodeWindow("n", 1, (at(0), at(1, 3), at(1.02, 3.9))), on_gpu=False)
    assert [each.at_milliseconds for each in telemetry.samples] == [0, 1000]
    assert telemetry.server_cpu_seconds == pytest.approx(1.02)


def test_the_first_sample_has_no_rate() -> None:
    """Without an idle time the first sample has figures of its moment alone."""
    telemetry = telemetry_of(NodeWindow("n", 1, (at(0), at(1, 3))), on_gpu=False)
    assert (telemetry.samples[0].watts, telemetry.samples[0].cpu_cores) == ({}, None)
    assert telemetry.samples[0].server_memory_bytes == 2**20


def test_a_restarted_agent_has_no_rates_across() -> None:
    """Counters of two starts are never compared; what is known is reported, and the fault."""
    taken = (at(0), at(1, 3), at(2, 5, instance="second"), at(3, 9, instance="second"))
    fault = "the agent of n was restarted"
    telemetry = telemetry_of(NodeWindow("n", 1, taken, fault=fault), on_gpu=False)
    assert [each.watts for each in telemetry.samples] == [
        {},
        {"package-0": 3},
        {},
        {"package-0": 4},
    ]
    assert telemetry.server_cpu_seconds is None
    assert telemetry.missing == [fault]


def a_gpu_sample(second: int, *, used: bool) -> AgentSample:
    """Return a sample of a node with two GPUs, of which the first may be used."""
    gpus = [
        GpuReading(
            uuid=f"GPU-{index}",
            index=index,
            name="H100",
            utilization_percent=50 + index,
            busy_microseconds=None if index else 250_000 * second,
            memory_used_bytes=7,
            clock_hertz=10**9,
            throttle_reasons=["SwPowerCap"],
        )
        for index in range(2)
    ]
    energies = [
        EnergyReading(
            domain=f"gpu-{index}",
            kind="Gpu",
            method="PowerIntegral",
            microjoules=300_000_000 * second,
            gpu_uuid=f"GPU-{index}",
        )
        for index in range(2)
    ]
    uses = [GpuUse(gpu_uuid="GPU-0")] if used else []
    target = WorkloadReading(pod_uid=POD, cpu_microseconds=second, gpus=uses)
    return sample(second * SECOND, gpus=gpus, energy=energies, workloads=[target], cpu=cpu(second))


@pytest.mark.parametrize(
    ("used", "on_gpu", "shown"),
    [
        (True, True, ["gpu-0"]),
        (True, False, ["gpu-0"]),
        (False, False, []),
        (False, True, ["gpu-0", "gpu-1"]),
    ],
)
def test_only_gpus_of_the_servers_are_reported(used: bool, on_gpu: bool, shown: list[str]) -> None:  # noqa: FBT001 - a table's
    """Of eight GPUs of a node the result has those that servers use; all if that is unknown."""
    taken = tuple(TimedSample(i * SECOND, a_gpu_sample(100 + i, used=used)) for i in range(2))
    (_, last) = telemetry_of(NodeWindow("n", 1, taken), on_gpu=on_gpu).samples
    assert sorted(last.watts) == sorted(last.gpu_utilization) == shown
    assert list(last.gpu_throttle_reasons) == list(last.gpu_clock_hertz) == shown
    assert all(watts == 300 for watts in last.watts.values())
    assert last.gpu_utilization.get("gpu-0", 0.25) == 0.25  # of its busy time
    assert last.gpu_utilization.get("gpu-1", 0.51) == 0.51  # of its last sample


def test_an_agents_missing_sources_are_reported() -> None:
    """Each source that gives nothing, or a part of it, is a sentence."""
    missing = [
        MissingSource(source="nvml", reason="there is no driver"),
        MissingSource(source="rapl", subject="package-0-dram", reason="it is not readable"),
    ]
    telemetry = telemetry_of(
        NodeWindow("n", 1, (at(0, missing=missing), at(1, missing=missing))), on_gpu=False
    )
    assert telemetry.missing == [
        "nvml: there is no driver",
        "rapl (package-0-dram): it is not readable",
    ]


def test_usage_has_the_servers_part_from_their_nodes() -> None:
    """Each second's usage gets the sum over the nodes; where one is unknown, nothing."""
    usage = [
        UsageSample(at_milliseconds=at_ms, client_cpu_cores=0.1, client_memory_bytes=1)
        for at_ms in (1005, 2005, 9005)
    ]
    nodes = [
        telemetry_of(NodeWindow(name, 1, (at(0), at(1), at(2, target_cores=cores))), on_gpu=False)
        for name, cores in (("n", 1.0), ("m", 1.0))
    ]
    samples = filled(usage, nodes)
    assert [each.server_cpu_cores for each in samples] == [2.0, 2.0, None]
    assert [each.server_memory_bytes for each in samples] == [2**21, 2**21, None]
    assert served_cpu_seconds(nodes) == 4
    assert filled(usage, []) == usage
    unknown = NodeTelemetry(node="x")
    assert filled(usage, [*nodes, unknown]) == usage
    assert served_cpu_seconds([*nodes, unknown]) is None
    known = [each.model_copy(update={"server_cpu_cores": 7.0}) for each in usage]
    assert filled(known, nodes) == known


def test_what_a_part_of_the_servers_used_is_not_the_servers() -> None:
    """If not every server has an agent, the step has no CPU seconds of the servers."""

    def step(unmetered: str) -> Step:
        terms = EnergyTerms(
            disabled=False, unmetered=unmetered, milliwatts_per_core=None, on_gpu=False
        )
        return summarize(
            StepPlan("", 4, 0, SECOND, SECOND, 1),
            StepStatistics(),
            MeasuredTimes("2026-01-01T00:00:00Z", 0, SECOND, 0),
            Used([], None, 0.0),
            Metered(terms, [NodeWindow("n", 1, (at(0), at(1, 40)))], answered=10),
            end=End.DONE,
            reconnects=0,
            open_loop=False,
        )

    assert step("").server_cpu_seconds == 1
    assert step("").energy.microjoules == 20_000_000
    assert step("").energy.microjoules_per_inference == 500_000  # 10 queries of 4 samples
    part = step("one server has no agent")
    assert (part.server_cpu_seconds, part.energy.microjoules) == (None, None)
    assert len(part.telemetry) == 1


@pytest.mark.parametrize(("calls", "every"), [(4, 1), (5, 2), (9, 2), (10, 4), (100, 32)])
def test_a_thinned_series_is_even(calls: int, every: int) -> None:
    """All intervals are one power of two; never more than four entries are kept of four."""
    series: BoundedSeries[int] = BoundedSeries(4)
    for call in range(1, calls + 1):
        if series.is_due():
            series.add(call)
    assert series.entries == list(range(every, calls + 1, every))
    assert len(series.entries) <= 4


def test_a_long_run_stays_small() -> None:
    """An hour of samples is kept as 600 at most, which take less than 200 KiB and round-trip."""
    between: BoundedSeries[AgentAnswer] = BoundedSeries(MOST_ENTRIES - 3)

    def answer(second: int) -> AgentAnswer:
        body = a_sample(second, {"package-0": 40.3 * second, "package-0-dram": 3.1 * second})
        return AgentAnswer(second * SECOND, second * SECOND, body.model_dump_json().encode())

    for second in range(1, 3600):
        if between.is_due():
            between.add(answer(second))
    agent = PlannedAgent(url="http://a:1", node="worker-1", pod_uids=[POD])
    answers = StepAnswers(agent, None, answer(0), between.entries, answer(3600))
    telemetry = telemetry_of(window_of(answers, 0), on_gpu=False)
    assert MOST_ENTRIES / 2 < len(telemetry.samples) <= MOST_ENTRIES
    text = telemetry.model_dump_json(exclude_none=True)
    assert len(text) < 200 * 1024
    assert NodeTelemetry.model_validate_json(text) == telemetry
    assert all(each.watts["package-0"] == 40.3 for each in telemetry.samples[1:])


def test_fields_of_a_later_agent_are_passed_over() -> None:
    """An agent of another release may send unknown fields."""
    body = a_sample(1, {"package-0": 1}).model_dump_json().replace("{", '{"later": {"a": [1]}, ')
    answers = [
        AgentAnswer(0, 0, body.encode()),
        AgentAnswer(0, 0, body.replace("1000000000", "2").encode()),
    ]
    agent = PlannedAgent(url="http://a:1", pod_uids=[POD])
    fields = window_of(StepAnswers(agent, None, answers[0], [], answers[0]), 0)
    assert (fields.node, fields.fault) == (
        "worker-1",
        "the node agent of worker-1 has a clock that does not go on",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"agent_version": "v" * (MOST_CHARACTERS + 1)},
        {"missing": [MissingSource(source="rapl", reason="no" * MOST_CHARACTERS)]},
        {
            "gpus": [
                GpuReading(uuid="u", index=0, name="g", throttle_reasons=["x"] * (MOST_LISTED + 1))
            ]
        },
        {"missing": [MissingSource(source="rapl", reason="no")] * (MOST_LISTED + 1)},
    ],
)
def test_an_answer_without_measure_is_none(fields: dict[str, Any]) -> None:
    """Texts and lists go into the result, once for each second: longer ones are not taken."""
    body = sample(1, **fields).model_dump_json().encode()
    taken, fault = read_sample(AgentAnswer(0, 0, body))
    assert taken is None
    assert fault.startswith(f"answered with a list of more than {MOST_LISTED} entries")
    most = [MissingSource(source="rapl", reason="n" * MOST_CHARACTERS)] * MOST_LISTED
    whole = sample(1, missing=most)
    assert read_sample(AgentAnswer(0, 0, whole.model_dump_json().encode())) == (whole, "")
