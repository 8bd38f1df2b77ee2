"""Properties that hold for every energy figure, whatever agents answer."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.plan.load_plan import PlannedAgent
from inferometer_api.results.agent_sample import AgentSample, EnergyReading, GpuReading, GpuUse
from inferometer_api.results.result import Energy
from inferometer_loadgen.nodes.energy import WEAKEST_LAST, EnergyTerms
from inferometer_loadgen.nodes.window import (
    AgentAnswer,
    NodeWindow,
    StepAnswers,
    TimedSample,
    window_of,
)
from support.energy_windows import (
    METERED,
    POD,
    cpu,
    found,
    gpu_counter,
    gpu_terms,
    package,
    sample,
    target,
    window,
)

_JOULES = st.integers(1, 19_000)
_BUSY = st.integers(0, 10**9)


@st.composite
def nodes(draw: st.DrawFn) -> NodeWindow:
    """Draw a node with a package or two, a GPU or none, and an idle time or none."""
    busy, used = draw(_BUSY), draw(st.none() | _BUSY)
    packages = [f"package-{index}" for index in range(draw(st.integers(1, 2)))]
    uses = [GpuUse(gpu_uuid="GPU-0", busy_microseconds=0)] if draw(st.booleans()) else []
    foreign, mig = draw(st.none() | st.booleans()), draw(st.booleans())
    gpu_busy, gpu_used = draw(st.integers(0, 9)), draw(st.none() | st.integers(0, 9))

    def answer(joules: dict[str, int], *, over: bool) -> dict[str, Any]:
        after = [GpuUse(gpu_uuid="GPU-0", busy_microseconds=gpu_used)] if uses else []
        reading = GpuReading(
            uuid="GPU-0",
            index=0,
            name="g",
            foreign=foreign,
            mig=mig,
            busy_microseconds=gpu_busy * over,
        )
        return {
            "energy": [
                *(package(joules[name] * 1_000_000, name) for name in packages),
                gpu_counter(joules["gpu-0"] * 1_000_000),
            ],
            "cpu": cpu(busy * over),
            "gpus": [reading],
            "workloads": []
            if used is None
            else [target(used * over, gpus=after if over else uses)],
        }

    names = [*packages, "gpu-0"]
    start = dict.fromkeys(names, 0)
    end = {name: draw(_JOULES) for name in names}
    idle = None
    if draw(st.booleans()):
        watts = {name: draw(st.integers(0, 4000)) for name in names}
        later = {name: 5 * each for name, each in watts.items()}
        idle = (answer(start, over=False), answer(later, over=False))
    return window(answer(start, over=False), answer(end, over=True), idle=idle)


@given(st.lists(nodes(), min_size=1, max_size=3), st.booleans())
def test_the_sum_is_that_of_its_parts(windows: list[NodeWindow], on_gpu: bool) -> None:  # noqa: FBT001 - drawn
    """Parts add up, no share exceeds the whole, the weakest names it, net is at most gross."""
    energy = found(*windows, terms=gpu_terms() if on_gpu else METERED)
    assert energy.attribution != "unavailable"
    assert energy.microjoules == sum(each.microjoules for each in energy.domains)
    ranks = [WEAKEST_LAST.index(each.attribution) for each in energy.domains]
    assert WEAKEST_LAST.index(energy.attribution) == max(ranks)
    for each in energy.domains:
        assert 0 < each.share <= 1
        assert each.microjoules <= each.domain_microjoules
        assert (each.share == 1) or each.attribution == "shared"
    if energy.net_microjoules is not None:
        assert energy.net_microjoules <= (energy.microjoules or 0)
    assert Energy.model_validate_json(energy.model_dump_json(exclude_none=True)) == energy


@given(nodes(), st.integers(2, 5))
def test_twice_the_energy_is_twice_the_figure(node: NodeWindow, factor: int) -> None:
    """Counters that count in another unit give the same figure in that unit."""

    def scaled(taken: TimedSample) -> TimedSample:
        energies = [
            each.model_copy(update={"microjoules": factor * each.microjoules})
            for each in taken.sample.energy
        ]
        return TimedSample(taken.at_ns, taken.sample.model_copy(update={"energy": energies}))

    idle = None if node.idle is None else (scaled(node.idle[0]), scaled(node.idle[1]))
    more = NodeWindow(node.node, 1, tuple(map(scaled, node.samples)), idle)
    one, many = found(node), found(more)
    count = len(one.domains)
    assert many.microjoules == pytest.approx(factor * (one.microjoules or 0), abs=factor * count)
    assert many.attribution == one.attribution
    assert (many.net_microjoules is None) == (one.net_microjoules is None)


_TEXTS = st.sampled_from(["", "a", "b", "GPU-0", POD])
_SIZES = st.sampled_from([0, 1, 5, 10**6, 2**53 - 1])


@st.composite
def anything(draw: st.DrawFn) -> AgentSample:
    """Draw a sample that holds to its schema and to nothing else."""
    energies = st.builds(
        lambda domain, kind, microjoules, uuid: EnergyReading(
            domain=domain, kind=kind, method="Counter", microjoules=microjoules, gpu_uuid=uuid
        ),
        _TEXTS,
        st.sampled_from(["Package", "Dram", "Gpu"]),
        _SIZES,
        _TEXTS,
    )
    uses = st.builds(
        lambda uuid, busy: GpuUse(gpu_uuid=uuid, busy_microseconds=busy), _TEXTS, st.none() | _SIZES
    )
    targets = st.builds(
        lambda pod, used, gpus: target(used, pod, gpus), _TEXTS, _SIZES, st.lists(uses, max_size=2)
    )
    gpus = st.builds(
        lambda uuid, busy, foreign: GpuReading(
            uuid=uuid, index=0, name="", busy_microseconds=busy, foreign=foreign
        ),
        _TEXTS,
        st.none() | _SIZES,
        st.none() | st.booleans(),
    )
    return sample(
        draw(_SIZES),
        instance=draw(st.sampled_from(["", "first"])),
        node=draw(st.sampled_from(["", "n", "m"])),
        energy=draw(st.lists(energies, max_size=3)),
        cpu=draw(st.none() | _SIZES.map(cpu)),
        gpus=draw(st.lists(gpus, max_size=2)),
        workloads=draw(st.lists(targets, max_size=3)),
    )


def answer(body: bytes) -> AgentAnswer:
    """Return an answer with this body."""
    return AgentAnswer(0, 2, body)


_ANSWERS = st.none() | st.one_of(
    anything().map(lambda each: answer(each.model_dump_json().encode())),
    st.binary(max_size=9).map(answer),
    st.just(AgentAnswer(0, 0, fault="did not answer within 2 s", timed_out=True)),
)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(_ANSWERS, _ANSWERS, st.lists(_ANSWERS, max_size=2)), max_size=3),
    st.booleans(),
    st.integers(1, 2**40),
)
def test_no_answer_of_an_agent_breaks_a_run(
    answers: list[tuple[AgentAnswer | None, AgentAnswer | None, list[AgentAnswer | None]]],
    on_gpu: bool,  # noqa: FBT001 - drawn
    duration_ns: int,
) -> None:
    """Whatever comes, there is an energy or a reason, and never an energy of nothing."""
    agent = PlannedAgent(url="http://127.0.0.1:1", node="n", pod_uids=[POD])
    windows = []
    for begin, end, between in answers:
        known = [each for each in between if each is not None]
        idle = (known[0], known[-1]) if known else None
        windows.append(window_of(StepAnswers(agent, idle, begin, known, end), 0))
    terms = EnergyTerms(disabled=False, unmetered="", milliwatts_per_core=7, on_gpu=on_gpu)
    result = found(*windows, terms=terms, duration_ns=duration_ns)
    if result.attribution == "unavailable":
        assert result.reason
        assert not result.reason.endswith(".")
        assert (result.microjoules, result.domains) == (None, [])
    else:
        assert all(each.domain_microjoules > 0 for each in result.domains)
    json.loads(result.model_dump_json())
