"""Numeric comparison of what two servers compute for the same inputs."""

from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.results.accuracy import AccuracyFigure, AccuracyResult, EvaluatedDataset
from inferometer_api.results.result import OutputSamples, ResultDocument, SampledOutput
from inferometer_api.spec.model_mix import MixedModel
from inferometer_results.compare.comparison import compare, compare_rounds
from inferometer_results.compare.gate import gate
from inferometer_results.compare.outputs import agreement_sentence, compare_outputs
from support.compared_results import repeats_of, with_service
from support.results import an_environment

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4]])


def samples(values: np.ndarray, name: str = "y", *, classes: bool = True) -> OutputSamples:
    """Return samples of one output, one row for each reply."""
    output = SampledOutput(
        name=name,
        shape=[1, values.shape[1]],
        values_per_sample=values.shape[1],
        values=b64encode(values.astype("<f4").tobytes()).decode(),
        largest=[int(row.argmax()) for row in values] if classes else [],
    )
    return OutputSamples(inputs=[str(each) for each in range(len(values))], outputs=[output])


def test_errors_cosine_and_first_class_are_exact() -> None:
    """The figures are those of numpy over all replies."""
    other = SCORES + np.array([[0.0, 0.0, 0.6], [0.0, 0.0, 0.03]])
    found = compare_outputs(samples(SCORES), samples(other), 2)
    assert found is not None
    assert found.largest_error == pytest.approx(0.6)
    assert found.mean_error == pytest.approx(0.63 / 6)
    cosine = SCORES[0] @ other[0] / np.linalg.norm(SCORES[0]) / np.linalg.norm(other[0])
    assert found.cosine == pytest.approx(cosine)
    assert (found.same_class, found.classes) == (1, 2)
    assert found.scale == pytest.approx(0.7)
    assert not found.is_equivalent
    assert "not equivalent" in agreement_sentence(found)


def test_a_small_error_is_equivalent() -> None:
    """An error of bfloat16's size lets two engines be ranked."""
    found = compare_outputs(samples(SCORES), samples(SCORES * 1.004), 2)
    assert found is not None
    assert found.is_equivalent
    assert "same in 2 of 2" in agreement_sentence(found)


@pytest.mark.parametrize("factor", [2.0, 0.001, 1.06, -1.0])
def test_errors_of_scale_and_offset_count(factor: float) -> None:
    """They leave the cosine or the first class as it is; the order of both servers is no matter."""
    for other in (SCORES * factor, SCORES + 0.05):
        for one, two in ((SCORES, other), (other, SCORES)):
            found = compare_outputs(samples(one), samples(two), 2)
            assert found is not None
            assert not found.is_equivalent
    label = np.array([[3.0], [4.0]])
    found = compare_outputs(samples(label, classes=False), samples(label + 1, classes=False), 2)
    assert found is not None
    assert (found.cosine, found.is_equivalent) == (1, False)
    assert "error by the norm 28.28%" in agreement_sentence(found)
    assert found.keeps(0.9)


@given(st.integers(min_value=0, max_value=1_000))
def test_equal_outputs_keep_any_cosine(seed: int) -> None:
    """Also one of 1, which rounding misses."""
    scores = np.random.default_rng(seed).normal(size=(8, 10))
    found = compare_outputs(samples(scores), samples(scores), 2)
    assert found is not None
    assert found.keeps(1.0)


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_rounding_to_reduced_precision_is_equivalent(dtype: str) -> None:
    """Outputs whose numbers are rounded to 8 bits of mantissa, or to 256 levels of their range."""
    rng = np.random.default_rng(3)
    exact = rng.normal(size=(8, 32)).astype("<f4")
    step = np.abs(exact).max() / 127
    bits = (exact.view("<u4") + 0x8000) & np.uint32(0xFFFF0000)
    rounded = bits.view("<f4") if dtype == "bf16" else np.round(exact / step) * step
    found = compare_outputs(samples(exact), samples(rounded), 8)
    assert found is not None
    assert found.is_equivalent


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_agrees_with_nothing_not_even_with_itself(value: float) -> None:
    """One in a reply suffices; the errors are those of the other numbers."""
    for broken in (np.full((2, 3), value), np.where(SCORES == 0.4, value, SCORES)):
        for one in (SCORES, broken):
            found = compare_outputs(samples(one), samples(broken), 2)
            assert found is not None
            assert (found.is_equivalent, found.keeps(0.0), found.cosine) == (False, False, 0)
            assert found.not_finite == (~np.isfinite(broken)).sum()
            assert (found.largest_error, found.mean_error) == (0, 0)
            assert "numbers are NaN or infinite. The outputs" in agreement_sentence(found)


@pytest.mark.parametrize("wrong", [np.zeros((2, 3)), np.full((2, 3), np.nan), -SCORES])
def test_zeros_and_what_is_not_a_number_agree_with_nothing(wrong: np.ndarray) -> None:
    """A server that answers nonsense fast is not ranked."""
    found = compare_outputs(samples(SCORES), samples(wrong, classes=False), 2)
    assert found is not None
    assert not found.is_equivalent


def test_outputs_without_a_counterpart_are_not_compared() -> None:
    """Another name or another shape means that nothing is known."""
    assert compare_outputs(samples(SCORES), samples(SCORES, "z"), 2) is None
    assert compare_outputs(samples(SCORES), samples(SCORES[:, :2]), 2) is None


def _result(
    milliseconds: float, outputs: np.ndarray | None = None, **server: str
) -> ResultDocument:
    """Return a result of three repeats of a server that takes so long and answers so."""
    document = repeats_of(with_service(milliseconds))
    run = document.run
    settings = run.spec.server.model_copy(update=server)
    spec = run.spec.model_copy(update={"server": settings})
    environment = an_environment(output_samples=None if outputs is None else samples(outputs))
    return document.model_copy(
        update={"run": run.model_copy(update={"spec": spec}), "environment": environment}
    )


def _with_accuracy(
    document: ResultDocument, low: float | None = None, high: float | None = None
) -> ResultDocument:
    dataset = EvaluatedDataset(name="d", version="1", license="MIT", uri="digits", samples=10)
    share = AccuracyFigure(metric="Top1", value=0.9, samples=10, low=low, high=high)
    accuracy = AccuracyResult(
        dataset=dataset, requested=10, processed=10, failed=0, figures=[share]
    )
    scenario = document.scenarios[0].model_copy(
        update={"name": "task", "accuracy": accuracy, "steps": []}
    )
    return document.model_copy(update={"scenarios": [*document.scenarios, scenario]})


def _words(before: ResultDocument, after: ResultDocument) -> set[str]:
    (pair,) = (each for each in compare(before, after).pairs if each.before.scenario == "latency")
    return {each.word for each in pair.figures if each.is_required}


FAST: dict[str, str] = {"runtime": "OpenVino", "precision": "BF16"}


def test_other_engines_are_ranked_only_with_equivalent_outputs() -> None:
    """A server that is twice as fast and computes something else is not better."""
    slow = _result(10, SCORES)
    assert _words(slow, _result(5, SCORES * 1.004, **FAST)) == {"better"}
    assert _words(slow, _result(5, -SCORES, **FAST)) == {"not judged"}
    assert _words(slow, _result(5, None, **FAST)) == {"not judged"}
    # The same engine and precision compute the same, whatever the samples say.
    assert _words(slow, _result(5, -SCORES)) == {"better"}


def test_a_mix_is_not_ranked_by_the_outputs_of_one_of_its_models() -> None:
    """Another engine may compute something else for the models whose outputs were not kept."""

    def mixed(document: ResultDocument, *models: str) -> ResultDocument:
        run = document.run
        mix = [MixedModel(model=each) for each in models]
        scenario = run.spec.scenarios[0].model_copy(update={"mix": mix})
        spec = run.spec.model_copy(update={"scenarios": [scenario, *run.spec.scenarios[1:]]})
        return document.model_copy(update={"run": run.model_copy(update={"spec": spec})})

    slow, fast = _result(10, SCORES), _result(5, SCORES, **FAST)
    own = slow.run.spec.model.served_name
    assert _words(mixed(slow, own), mixed(fast, own)) == {"better"}
    assert _words(mixed(slow, own, "other"), mixed(fast, own, "other")) == {"not judged"}


def test_interleaved_runs_follow_the_same_rule() -> None:
    """The gate of `ab` is inconclusive, and says what would rank them."""
    before, after = [_result(10, SCORES)] * 3, [_result(5, -SCORES, **FAST)] * 3
    comparison = compare_rounds(before, after, is_gate=True)
    found = gate(before[-1], after[-1], comparison)
    assert found.decision == "INCONCLUSIVE"
    (reason,) = found.reasons
    assert reason.startswith("latency has outputs that are not equivalent in A and B. Engine or")
    assert reason.endswith("to compare their speed, give both runs a scenario accuracy.")


def test_an_accuracy_of_both_with_its_interval_permits_a_ranking() -> None:
    """One accuracy is not enough, nor is a figure without bounds."""
    slow, fast = _result(10, SCORES), _result(5, -SCORES, **FAST)
    assert _words(_with_accuracy(slow, 0.8, 0.95), fast) == {"not judged"}
    assert _words(_with_accuracy(slow), _with_accuracy(fast)) == {"not judged"}
    assert _words(*(_with_accuracy(each, 0.8, 0.95) for each in (slow, fast))) == {"better"}
