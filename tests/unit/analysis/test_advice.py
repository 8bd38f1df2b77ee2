"""Advice follows from timings by Benanza's questions, and states what it predicts."""

from dataclasses import replace
from typing import Any

import pytest

from inferometer_analysis.advice import (
    Advice,
    Evidence,
    MeasuredVariant,
    advise,
    notes,
    paired_gain,
)
from inferometer_analysis.bound import lower_bound, timing_interval
from inferometer_analysis.layer_work import GraphLayer
from inferometer_analysis.samples import Interval, total
from inferometer_api.layers.timings import KernelTiming
from inferometer_api.spec.overrides import with_override
from inferometer_api.spec.run import BenchmarkRun
from inferometer_results.layers.advice_report import (
    AdviceTrial,
    AdvisedModel,
    advice_sentences,
    model_advice,
)
from support.layer_graphs import MACHINE
from support.runs import a_run

ROUNDS = tuple(range(1000, 1100, 10))
PRESENT = MeasuredVariant("onnxruntime", "FP32", 1, ROUNDS)


def _times(factor: float) -> tuple[int, ...]:
    return tuple(round(each * factor) for each in ROUNDS)


def _of(found: list[Advice], question: str) -> Advice:
    (one,) = (each for each in found if each.question == question)
    return one


def test_faster_variants_become_settings() -> None:
    """Another engine is Q3, more threads Q2, a lower precision Q6 with its numeric error."""
    others = (
        MeasuredVariant("openvino", "FP32", 1, _times(0.8)),
        MeasuredVariant("openvino", "BF16", 1, _times(0.5), difference=0.012),
        MeasuredVariant("onnxruntime", "FP32", 2, _times(0.6)),
    )
    found = advise(Evidence(PRESENT, others))
    assert [each.question for each in found] == ["Q2", "Q3", "Q6"]
    assert _of(found, "Q3").settings == (
        "spec.server.runtime=OpenVino",
        "spec.server.precision=FP32",
    )
    assert _of(found, "Q2").settings == ("spec.server.threads=2",)
    assert "0.012 of their deviation" in _of(found, "Q6").sentence
    assert _of(found, "Q6").gain.value == pytest.approx(0.5, abs=0.001)
    assert not any(each.why_not for each in found)


def test_advice_starts_from_what_is_served() -> None:
    """From OpenVINO in BF16, ONNX Runtime is Q3; from no optimisation, all of it is Q4."""
    served = MeasuredVariant("openvino", "BF16", 1, ROUNDS)
    (piece,) = advise(Evidence(served, (replace(PRESENT, nanoseconds=_times(0.8)),)))
    assert piece.question == "Q3"
    assert piece.settings == ("spec.server.runtime=OnnxRuntime", "spec.server.precision=Default")
    plain = replace(PRESENT, graph_optimization="Disabled")
    (piece,) = advise(Evidence(plain, (replace(PRESENT, nanoseconds=_times(0.7)),)))
    assert piece.question == "Q4"
    assert piece.settings == ("spec.server.onnxRuntime.graphOptimization=All",)


def test_a_wrong_bound_is_no_advice_and_is_named() -> None:
    """Layers that take longer alone than the whole model promise nothing."""
    layers = [GraphLayer(0, "a", "Loop", "a")]
    slow = KernelTiming(key="a", engine="onnxruntime", precision="FP32", nanoseconds=5000.0)
    evidence = Evidence(PRESENT, (), bound=lower_bound(layers, {"a": slow}))
    assert advise(evidence) == []
    (note,) = notes(evidence)
    assert "Bound wrong: its layers take 0.005 ms alone, and the whole model 0.001 ms." in note


def test_questions_without_timings_of_layers_say_so() -> None:
    """Nothing is left out in silence."""
    bound = lower_bound([GraphLayer(0, "a", "Conv", "a")], {})
    (note,) = notes(Evidence(PRESENT, (), bound=bound))
    assert note == "Q1, Q4 and Q5 are not answered: they follow from timings of layers."


def test_fixed_shapes_answer_what_the_framework_adds() -> None:
    """A model with fixed shapes is Q4; one that is not faster is among what was tried."""
    fixed = MeasuredVariant(
        *("onnxruntime", "FP32", 1, _times(0.9)), rewriting="FixedShapes", model="file:/x.onnx"
    )
    found = _of(advise(Evidence(PRESENT, (fixed,), own_kernels=Interval(500.0))), "Q4")
    assert (found.settings, found.why_not) == (("spec.model.uri=file:/x.onnx",), "")
    slower = replace(fixed, nanoseconds=_times(1.01))
    found = _of(advise(Evidence(PRESENT, (slower,), own_kernels=Interval(500.0))), "Q4")
    assert found.why_not == "Tried and not faster beyond noise: a model with fixed shapes."


@pytest.mark.parametrize(("factor", "is_applied"), [(0.975, False), (0.965, True)])
def test_a_gain_that_serving_may_hide_is_listed_and_not_applied(
    factor: float, *, is_applied: bool
) -> None:
    """Below 3 % the sign of what a served model gains is a guess."""
    others = (MeasuredVariant("openvino", "FP32", 1, _times(factor)),)
    found = _of(advise(Evidence(PRESENT, others)), "Q3")
    assert found.settings
    assert (not found.why_not) is is_applied
    assert ("less than 3 %" in found.why_not) is not is_applied


def test_what_is_not_faster_beyond_noise_is_no_advice() -> None:
    """A variant whose paired gain may be zero is not proposed, nor is a slower one."""
    wavering = tuple(each + (30 if at % 2 else -40) for at, each in enumerate(ROUNDS))
    others = (
        MeasuredVariant("openvino", "FP32", 1, wavering),
        MeasuredVariant("openvino", "BF16", 1, _times(1.3)),
    )
    assert advise(Evidence(PRESENT, others)) == []


def _of_layers(spread: float | None, present: MeasuredVariant = PRESENT) -> list[Advice]:
    """Return advice on a convolution before a convolution and an activation next to each other."""
    layers = [
        GraphLayer(0, "a", "Conv", "a"),
        GraphLayer(1, "b", "Conv", "b", (0,)),
        GraphLayer(2, "c", "Relu", "c", (0,)),
    ]
    timings = {
        key: KernelTiming(
            key=key,
            engine="onnxruntime",
            precision="FP32",
            nanoseconds=ns,
            spread_nanoseconds=None if spread is None else ns * spread,
        )
        for key, ns in (("a", 400.0), ("b", 300.0), ("c", 100.0))
    }
    a, b, c = map(timing_interval, timings.values())
    return advise(
        Evidence(
            present,
            (),
            bound=lower_bound(layers, timings),
            own_kernels=total([a, b, c]),
            layer_times={"Conv": [a, b], "Relu": [c]},
        )
    )


def test_bounds_and_the_framework_are_explained_and_not_applied() -> None:
    """Q1, Q2, Q4 and Q5 without a setting say why they are not applied."""
    found = _of_layers(0.01)
    assert [each.question for each in found] == ["Q1", "Q2", "Q4", "Q5"]
    assert all(each.why_not for each in found)
    assert _of(found, "Q1").gain.value == pytest.approx(1 - 800 / 1045)
    assert _of(found, "Q2").gain.value == pytest.approx(100 / 1045)
    assert _of(found, "Q4").gain.value == pytest.approx(1 - 800 / 1045)
    assert "1 element-wise layer not fused (Relu)" in _of(found, "Q5").sentence


def test_gains_from_layers_have_the_interval_of_timings_and_latency() -> None:
    """With quartiles 13.49 % apart a timing lies within 19.6 %, the latency from 1010 to 1080."""
    found = _of_layers(0.1349)
    ends = {each.question: (each.gain.low, each.gain.high) for each in found}
    remaining = pytest.approx((1 - 800 * 1.196 / 1010, 1 - 800 * 0.804 / 1080))
    branch = pytest.approx((100 * 0.804 / 1080, 100 * 1.196 / 1010))
    assert ends == {"Q1": remaining, "Q2": branch, "Q4": remaining, "Q5": branch}
    for each in found:
        assert each.gain.low is not None
        assert each.gain.high is not None
        assert each.gain.low < each.gain.value < each.gain.high
        assert not each.why_no_interval


@pytest.mark.parametrize(
    ("spread", "rounds", "reason"),
    [(None, 10, "timings in the database have no spread"), (0.01, 5, "too few rounds")],
)
def test_a_gain_without_an_interval_says_why(
    spread: float | None, rounds: int, reason: str
) -> None:
    """Timings that an earlier version kept have no spread, and five rounds no interval."""
    found = _of_layers(spread, replace(PRESENT, nanoseconds=ROUNDS[:rounds]))
    assert len(found) == 4
    for each in found:
        assert (each.gain.low, each.gain.high) == (None, None)
        assert each.why_no_interval.startswith(reason)
    report = model_advice(AdvisedModel("net", MACHINE, Evidence(PRESENT, ())), found)
    assert sum(f"% (no interval: {reason}" in each for each in advice_sentences(report)) == 4
    assert all(each.why_no_interval.startswith(reason) for each in report.advice)


def test_gains_are_paired_by_round() -> None:
    """What slows a whole round changes no gain."""
    found = paired_gain([100.0, 200.0, 400.0] * 3, [50.0, 100.0, 200.0] * 3)
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_optimisation_fusion_and_quantisation_become_settings() -> None:
    """Another optimisation level is Q4; a rewritten model with fused operators Q5, INT8 Q6."""
    others = (
        MeasuredVariant("onnxruntime", "FP32", 1, _times(0.9), graph_optimization="Extended"),
        MeasuredVariant(
            "onnxruntime", "FP32", 1, _times(0.8), rewriting="Fused", model="file:/f.onnx"
        ),
        MeasuredVariant(
            "openvino", "INT8", 1, _times(0.4), 0.02, rewriting="INT8", model="file:/q.onnx"
        ),
    )
    found = advise(Evidence(PRESENT, others, own_kernels=Interval(500.0)))
    assert [each.question for each in found] == ["Q4", "Q5", "Q6"]
    assert _of(found, "Q4").settings == ("spec.server.onnxRuntime.graphOptimization=Extended",)
    assert _of(found, "Q5").settings == ("spec.model.uri=file:/f.onnx",)
    assert _of(found, "Q6").settings == (
        "spec.server.runtime=OpenVino",
        "spec.model.uri=file:/q.onnx",
    )
    assert "INT8 on openvino; outputs differ by at most 0.02" in _of(found, "Q6").sentence


def test_another_engine_leaves_the_choices_of_onnx_runtime_out() -> None:
    """OpenVINO refuses them, so the advice could not be applied as it stands."""
    served = replace(PRESENT, graph_optimization="Basic")
    found = advise(Evidence(served, (MeasuredVariant("openvino", "FP32", 1, _times(0.8)),)))
    assert _of(found, "Q3").settings == (
        "spec.server.runtime=OpenVino",
        "spec.server.precision=FP32",
        "spec.server.onnxRuntime=null",
    )
    applied: dict[str, Any] = a_run(server={"onnxRuntime": {"graphOptimization": "Basic"}})
    for path, _, value in (each.partition("=") for each in _of(found, "Q3").settings):
        with_override(applied, path, value)
    assert BenchmarkRun.model_validate(applied).spec.server.onnx_runtime is None


@pytest.mark.parametrize(("rounds", "is_named"), [(3, True), (6, False)])
def test_a_gain_of_few_rounds_says_why_it_has_no_interval(rounds: int, *, is_named: bool) -> None:
    """A median of three has no 95 % interval."""
    found = advise(Evidence(PRESENT, (MeasuredVariant("onnxruntime", "FP32", 2, _times(0.6)),)))
    gain = paired_gain(ROUNDS[:rounds], _times(0.7)[:rounds])
    model = AdvisedModel("net", MACHINE, Evidence(PRESENT, ()))
    report = model_advice(model, found, AdviceTrial(achieved={0: gain}))
    (line,) = (each for each in advice_sentences(report) if "Achieved gain" in each)
    assert ("no interval: it takes six rounds" in line) is is_named


def test_a_question_whose_variants_are_not_faster_says_what_was_tried() -> None:
    """What the framework adds stays listed, with the settings that do not remove it."""
    slower = MeasuredVariant("onnxruntime", "FP32", 1, _times(1.1), graph_optimization="Extended")
    found = advise(
        Evidence(
            PRESENT,
            (slower,),
            own_kernels=Interval(500.0),
            layer_times={"Relu": [Interval(100.0)]},
            not_rewritten={"Fused": "No pattern was found."},
        )
    )
    assert (
        _of(found, "Q4").why_not == "Tried and not faster beyond noise: the optimisation Extended."
    )
    assert _of(found, "Q5").why_not == "No pattern was found."


@pytest.mark.parametrize(
    ("untimed", "why_not", "is_answered"),
    [
        (0, "", True),
        (1, "", True),
        (5, "", False),
        (1, "If has a graph of its own (control flow).", False),
    ],
)
def test_a_bound_with_much_unknown_is_no_ideal_latency(
    untimed: int, why_not: str, *, is_answered: bool
) -> None:
    """What has no timing counts as free: it may be all that takes time."""
    layers = [
        GraphLayer(at, f"l{at}", "If" if at >= 20 else "Conv", f"k{at}", why_not=why_not)
        for at in range(20 + untimed)
    ]
    timings = {
        f"k{at}": KernelTiming(
            key=f"k{at}", engine="onnxruntime", precision="FP32", nanoseconds=10.0
        )
        for at in range(20)
    }
    evidence = Evidence(PRESENT, (), bound=lower_bound(layers, timings))
    assert ("Q1" in [each.question for each in advise(evidence)]) is is_answered
    named = [note for note in notes(evidence) if note.startswith("Q1 is not answered: ")]
    assert bool(named) is not is_answered
    assert all("without a timing (If) may take most of an inference" in note for note in named)


@pytest.mark.parametrize(("slowdown", "is_named"), [(0.05, False), (0.25, True)])
def test_advice_from_a_slow_machine_is_doubtful(slowdown: float, *, is_named: bool) -> None:
    """Layers that the database has from a faster moment promise more than there is."""
    report = model_advice(
        AdvisedModel("net", MACHINE, Evidence(PRESENT, ()), slowdown=slowdown), []
    )
    assert any("took 25.0 % longer" in note for note in report.notes) is is_named


def test_a_wrong_bound_is_named_also_where_layers_have_no_timing() -> None:
    """What is missing would make it only longer."""
    layers = [GraphLayer(at, f"l{at}", "If", f"k{at}", why_not="A graph.") for at in range(2)]
    timed = KernelTiming(key="k0", engine="onnxruntime", precision="FP32", nanoseconds=2_000.0)
    (note,) = notes(Evidence(PRESENT, (), bound=lower_bound(layers, {"k0": timed})))
    assert note.startswith("Q1 is not answered. Bound wrong")
