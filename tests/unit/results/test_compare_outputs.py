"""Numeric comparison of what two servers compute for the same inputs."""

from base64 import b64encode

import numpy as np
import pytest

from inferometer_api.results.result import OutputSamples, SampledOutput
from inferometer_results.compare.outputs import agreement_sentence, compare_outputs

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
