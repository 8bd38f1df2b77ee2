"""Measures of accuracy agree with counting, and their memory does not grow."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_tasks.assets import Assets
from inferometer_tasks.datasets.dataset import open_dataset
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.metric import RunningMean, share
from inferometer_tasks.metrics.table import METRICS
from inferometer_tasks.pipeline import TaskPipeline
from inferometer_tasks.sample import Classes, Detections, Mask, Sample, ScoredClass
from inferometer_tasks.steps.tensor import DTYPES
from support.digits import MANIFEST


def classes(*best: int, labels: str = "abcdefghij") -> Classes:
    """Return a prediction of these classes, the best first."""
    return Classes(tuple(ScoredClass(each, 1.0, labels[each]) for each in best), 10)


@given(st.lists(st.tuples(st.integers(0, 9), st.permutations(range(10))), min_size=1))
def test_top_k_counts_labels_among_the_best(rows: list[tuple[int, list[int]]]) -> None:
    """Names and numbers of labels mean the same."""
    for name, k in (("Top1", 1), ("Top5", 5)):
        metric = METRICS[name]()
        for number, (label, best) in enumerate(rows):
            given_label = ["abcdefghij"[label], label, str(label)][number % 3]
            metric.add(classes(*best), given_label)
        value = metric.result()
        wanted = sum(label in best[:k] for label, best in rows)
        assert value is not None
        assert (value.correct, value.samples) == (wanted, len(rows))
        assert value.low is not None
        assert value.high is not None
        assert value.low <= value.value <= value.high


@pytest.mark.parametrize("true", [0.5, 0.9, 0.99])
def test_bounds_of_a_share_hold_as_often_as_they_say(true: float) -> None:
    """Of many samples of 200, about 95 % of the intervals contain the true share."""
    random = np.random.default_rng(11)
    counts = random.binomial(200, true, 4000)
    held = [
        value.low <= true <= value.high
        for value in (share(int(count), 200) for count in counts)
        if value.low is not None and value.high is not None
    ]
    assert len(held) == 4000
    assert 0.93 <= np.mean(held) <= 0.98


@pytest.mark.parametrize("samples", [5, 20, 200, 2000])
def test_bounds_of_a_mean_of_scores_hold_as_often_as_they_say(samples: int) -> None:
    """Of F1: right or wrong, anything between, and mostly right; they end at 0 and 1."""
    random = np.random.default_rng(12)
    shape = (1000, samples)
    mixed = np.where(random.random(shape) < 0.85, 1.0, random.beta(2, 2, shape))
    for true, values in (
        (0.9, random.binomial(1, 0.9, shape).astype(float)),
        (0.8, random.beta(8, 2, shape)),
        (0.925, mixed),
    ):
        held = []
        for row in values[: 1000 if samples < 2000 else 300]:
            mean = RunningMean()
            for each in row:
                mean.add(float(each))
            found = mean.result_of_scores()
            assert found is not None
            assert found.low is not None
            assert found.high is not None
            assert 0 <= found.low <= found.value <= found.high <= 1
            held.append(found.low <= true <= found.high)
        assert np.mean(held) >= 0.92


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.0] * 3, (0.2, 0.4), (1.0, 1.0)),
        ([1.0] * 10_000, (0.999, 0.9999), (1.0, 1.0)),
        ([0.0] * 3, (0.0, 0.0), (0.6, 0.8)),
        ([1.0, 1.0, 1.0, 1.0, 0.5], (0.3, 0.7), (0.95, 1.0)),
        ([0.8], (0.0, 0.3), (0.8, 1.0)),
        ([0.75, 0.85] * 500, (0.79, 0.797), (0.8, 0.806)),
    ],
)
def test_a_mean_of_scores_never_has_bounds_without_width(
    values: list[float], low: tuple[float, float], high: tuple[float, float]
) -> None:
    """A perfect sample of three does not exclude 0.9; a large one with little scatter does."""
    mean = RunningMean()
    for each in values:
        mean.add(each)
    found = mean.result_of_scores()
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert low[0] <= found.low <= low[1]
    assert high[0] <= found.high <= high[1]
    assert found.low < found.high


def test_a_mean_of_errors_has_bounds_by_student_from_zero_on() -> None:
    """Two values have wide bounds; values that do not scatter have none."""

    def bounds(*values: float) -> tuple[float | None, float | None]:
        mean = RunningMean()
        for each in values:
            mean.add(each)
        found = mean.result()
        assert found is not None
        return found.low, found.high

    assert bounds(2.0, 3.0) == pytest.approx((0.0, 2.5 + 12.7062 * 0.5), rel=1e-4)
    half = 4.30265 * 1.0 / 3**0.5
    assert bounds(9.0, 10.0, 11.0) == pytest.approx((10 - half, 10 + half), rel=1e-4)
    assert bounds(0.0, 0.0, 0.0) == (None, None)


def test_a_label_beyond_the_classes_makes_its_sample_fail() -> None:
    """A label file of another model shows itself."""
    with pytest.raises(SampleError, match="Its label is 12, but the model distinguishes 10"):
        METRICS["Top1"]().add(classes(1), 12)
    with pytest.raises(TaskRefusedError, match="Top5 needs 5 classes, but topK keeps 1"):
        METRICS["Top5"]().add(classes(1), 1)
    with pytest.raises(TaskRefusedError, match="end the output's steps with topK"):
        METRICS["Top1"]().add("text", 1)


@pytest.mark.parametrize("label", [3, 3.0, "3", "3.0", " 3", "03", "d", " d "])
def test_a_class_may_be_stated_as_any_writer_of_tables_does(label: Any) -> None:
    """Pandas writes 3.0 for 3 in a column with gaps."""
    assert METRICS["Top1"]().add(classes(3), label) is True
    assert METRICS["Top1"]().add(classes(4), label) is False


@pytest.mark.parametrize("label", [True, [3], {"class": 3}, 3.5, float("nan"), "", " "])
def test_a_label_that_states_no_class_makes_its_sample_fail(label: Any) -> None:
    """It is not counted as wrong."""
    metric = METRICS["Top1"]()
    with pytest.raises(SampleError, match="neither the number nor the name of a class"):
        metric.add(classes(3), label)
    assert metric.result() is None


@pytest.mark.parametrize("label", ["-1", -1, 10.0, "10.0", "9" * 5000, "-" + "9" * 5000])
def test_a_number_outside_the_classes_makes_its_sample_fail(label: Any) -> None:
    """However it is written."""
    with pytest.raises(SampleError, match="but the model distinguishes 10 classes"):
        METRICS["Top1"]().add(classes(3), label)


def test_a_name_cannot_be_compared_with_classes_without_names() -> None:
    """The mistake of the manifest is named, instead of an accuracy of 0."""
    unnamed = Classes((ScoredClass(3, 1.0),), 10)
    with pytest.raises(SampleError, match=r"set topK\.labels"):
        METRICS["Top1"]().add(unnamed, "d")
    assert METRICS["Top1"]().add(unnamed, "3") is True


def a_pipeline(labels: str) -> TaskPipeline:
    """Return the steps of a model whose label file has these lines."""
    manifest = ModelManifest.model_validate(
        yaml.safe_load(MANIFEST)
        | {
            "outputs": [{"name": "logits", "steps": [{"topK": {"k": 1, "labels": "l.txt"}}]}],
            "assets": [{"path": "l.txt", "text": labels}],
        }
    )
    return TaskPipeline(manifest, Assets(manifest, Path()))


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("zero", "is none of the 3 names in the manifest's labels: write it as there"),
        ("Dog", "'dog' there differs only in case"),
        ("cafe\u0301", "'caf\u00e9' there differs only in case or in how its accents are encoded"),
    ],
)
def test_a_name_that_no_class_has_makes_its_sample_fail(label: str, words: str) -> None:
    """It is not counted as wrong, however many classes topK keeps."""
    pipeline, metric = a_pipeline(" cat\ndog\ncaf\u00e9\n"), METRICS["Top1"]()
    found = pipeline.prediction({"logits": np.array([0.1, 0.7, 0.2])}, Sample("1", ""))
    with pytest.raises(SampleError, match=words):
        metric.add(found, label)
    assert metric.result() is None
    counted = [metric.add(found, each) for each in ("dog", "cat ", "caf\u00e9")]
    assert counted == [True, False, False]


@pytest.mark.parametrize(
    ("found", "label", "exact", "f1"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1, 1),
        ("in the Eiffel Tower", "Eiffel Tower", 0, 0.8),
        ("Paris", ["London", "paris"], 1, 1),
        ("Paris, Paris", "Paris", 0, 2 / 3),
        ("", "", 1, 1),
        ("nothing", "all", 0, 0),
    ],
)
def test_answers_are_compared_as_squad_does(
    found: str, label: Any, exact: float, f1: float
) -> None:
    """Case, articles, punctuation and blanks do not count; the best label counts."""
    for name, wanted in (("ExactMatch", exact), ("F1", f1)):
        metric = METRICS[name]()
        metric.add(found, label)
        value = metric.result()
        assert value is not None
        assert value.value == pytest.approx(wanted)


def test_a_list_of_texts_in_csv_is_a_list(tmp_path: Path) -> None:
    """A cell with a JSON list means what the list means in JSONL; other brackets are text."""
    (tmp_path / "list.csv").write_text(
        'text,label\nwho?,"[""Paris"", ""paris city""]"\nwho?,[laughter] yes\nwho?,[1]\n'
    )
    samples = list(open_dataset("file:x", tmp_path / "list.csv", tmp_path).read())
    labels = [each.label for each in samples if isinstance(each, Sample)]
    for name, right in (("ExactMatch", 1.0), ("F1", 1.0), ("WER", 0.0), ("CER", 0.0)):
        metric = METRICS[name]()
        for found, label in zip(("Paris", "[laughter] yes", "[1]"), labels, strict=True):
            metric.add(found, label)
        value = metric.result()
        assert value is not None
        assert (value.value, value.samples) == (right, 3)
    with pytest.raises(SampleError, match="no label"):
        METRICS["ExactMatch"]().add("Paris", "[]")


def edits(one: str, other: str) -> int:
    """Return the edit distance by the table of Wagner and Fischer (1974)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


@given(st.lists(st.tuples(st.text("ab c", max_size=9), st.text("ab c", min_size=1, max_size=9))))
def test_the_character_error_rate_counts_edits_over_all(rows: list[tuple[str, str]]) -> None:
    """Edits of all samples over the length of all labels."""
    metric = METRICS["CER"]()
    for found, label in rows:
        metric.add(found, label)
    value = metric.result()
    if not rows:
        assert value is None
        return
    assert value is not None
    total = sum(edits(found, label) for found, label in rows)
    assert value.value == pytest.approx(total / sum(len(label) for _, label in rows))


def test_the_word_error_rate_counts_words() -> None:
    """One of four words is wrong, and one too many."""
    metric = METRICS["WER"]()
    metric.add("the cat sat there now", "the cat sat here")
    value = metric.result()
    assert value is not None
    assert value.value == 0.5


TEXTS = st.text("ab ", max_size=8)


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=4)), min_size=1))
def test_of_several_references_the_best_counts(rows: list[tuple[str, list[str]]]) -> None:
    """As ExactMatch and F1 do; a loop over the references finds it."""
    metric = METRICS["CER"]()
    total = length = 0
    for found, references in rows:
        metric.add(found, references)
        rates = [
            (edits(found, each) / len(each)) if each else (float("inf") if found else 0.0)
            for each in references
        ]
        best = references[rates.index(min(rates))]
        total, length = total + edits(found, best), length + len(best)
    value = metric.result()
    assert (value and value.value) == (pytest.approx(total / length) if length else None)


def test_words_of_several_references_count_too() -> None:
    """The second is right, so that nothing is wrong of three words."""
    metric = METRICS["WER"]()
    assert metric.add("the cat sat", ["a dog", "the cat sat"]) is True
    value = metric.result()
    assert value is not None
    assert (value.value, value.samples) == (0, 1)


@pytest.mark.parametrize("name", ["ExactMatch", "F1", "WER", "CER"])
@pytest.mark.parametrize(
    ("label", "words"),
    [
        ([], r'write \[""\] if no answer is the right one'),
        ("[]", r'write \[""\] if no answer is the right one'),
        ({"answer": "a"}, "neither a text nor a list of texts"),
        ([["a"]], "neither a text nor a list of texts"),
        (True, "neither a text nor a list of texts"),
        (None, "It has no label"),
    ],
)
def test_a_label_that_is_no_text_makes_its_sample_fail(name: str, label: Any, words: str) -> None:
    """It is not compared as Python would write it."""
    metric = METRICS[name]()
    with pytest.raises(SampleError, match=words):
        metric.add("a", label)
    assert metric.result() is None


def test_no_answer_may_be_the_right_one() -> None:
    """As in SQuAD 2, whose empty lists become a list of one empty text."""
    metric = METRICS["ExactMatch"]()
    assert [metric.add(each, '[""]') for each in ("", "Paris")] == [True, False]


@given(st.integers(0, 1000), st.integers(1, 4))
def test_the_mean_intersection_over_union_is_that_of_sets(seed: int, count: int) -> None:
    """Pixels of all samples count together; 255 counts nowhere."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 3, (count, 4, 5))
    label = random.choice([0, 1, 2, 255], (count, 4, 5))
    metric = METRICS["MeanIoU"]()
    for one, other in zip(found, label, strict=True):
        metric.add(Mask(one), other.tolist())
    counted = label != 255
    shares = [
        (counted & (found == k) & (label == k)).sum() / union
        for k in range(3)
        if (union := (counted & ((found == k) | (label == k))).sum())
    ]
    value = metric.result()
    assert (value and value.value) == (pytest.approx(np.mean(shares)) if shares else None)


def test_the_mean_squared_error_has_bounds() -> None:
    """The mean over samples, with bounds from their spread."""
    metric = METRICS["MSE"]()
    for each in (1.0, 2.0, 3.0):
        metric.add(np.array([each, each]), [0, 0])
    value = metric.result()
    assert value is not None
    assert value.value == pytest.approx(14 / 3)
    assert value.low is not None
    assert value.low < value.value


@pytest.mark.parametrize(
    ("found", "label", "words"),
    [
        ([np.nan, 1], [1, 2], "error is nan"),
        ([1, 1], "[NaN, 2]", "error is nan"),
        ([1, 1], "[Infinity, 2]", "error is inf"),
        ([1e300, 1], [1, 2], "error is inf"),
        ([], [], "have no numbers"),
    ],
)
def test_numbers_without_a_finite_error_make_their_sample_fail(
    found: list[float], label: Any, words: str
) -> None:
    """The mean of the others stays a number."""
    metric = METRICS["MSE"]()
    metric.add(np.array([3.0]), [1])
    with pytest.raises(SampleError, match=words):
        metric.add(np.array(found), label)
    value = metric.result()
    assert value is not None
    assert (value.value, value.samples) == (4, 1)


def test_a_mean_of_very_large_numbers_has_no_bounds() -> None:
    """Their squares are beyond a float."""
    metric = METRICS["MSE"]()
    metric.add(np.array([1e100]), [0])
    metric.add(np.array([1e50]), [0])
    value = metric.result()
    assert value is not None
    assert value.value == pytest.approx(5e199)
    assert (value.low, value.high) == (None, None)


def test_the_error_of_numbers_in_bfloat16_counts() -> None:
    """Their type is none of NumPy's own, and they are no texts."""
    metric = METRICS["MSE"]()
    metric.add(np.array([1, 2, 3]).astype(DTYPES["BF16"]), [1, 2, 6])
    value = metric.result()
    assert value is not None
    assert value.value == pytest.approx(3)


STEPS = {
    "topK": [{"softmax": {}}, {"topK": {"k": 2}}],
    "argmaxMask": [{"argmaxMask": {}}],
    "ctc": [{"ctc": {"vocabulary": "letters.txt"}}],
    "span": [{"span": {"end": "ends", "tokenizer": "t.json", "maxLength": 8}}],
}


@pytest.mark.parametrize("datatype", ["FP32", "BF16"])
@pytest.mark.parametrize("last", STEPS)
def test_scores_that_are_not_numbers_make_their_sample_fail(last: str, datatype: str) -> None:
    """No class, character or token is the best then: not the first one either."""
    manifest = ModelManifest.model_validate(
        yaml.safe_load(MANIFEST) | {"outputs": [{"name": "logits", "steps": STEPS[last]}]}
    )
    pipeline = TaskPipeline(manifest, Assets(manifest, Path()))
    scores = np.array([[0.1, np.nan, 0.3]]).astype(DTYPES[datatype])
    outputs = {"logits": scores, "ends": scores}
    with pytest.raises(SampleError, match="'logits' has 1 NaN among 3 scores"):
        pipeline.prediction(outputs, Sample("1", "who?", context="ada"))


def test_the_scores_of_the_last_token_are_numbers_too() -> None:
    """An answer has a begin and an end."""
    manifest = ModelManifest.model_validate(
        yaml.safe_load(MANIFEST)
        | {
            "outputs": [{"name": "logits", "steps": STEPS["span"]}],
            "assets": [{"path": "t.json", "text": Tokenizer(models.WordLevel()).to_str()}],
        }
    )
    pipeline = TaskPipeline(manifest, Assets(manifest, Path()))
    outputs = {"logits": np.zeros(3), "ends": np.array([0, np.nan, np.nan])}
    with pytest.raises(SampleError, match="'ends' has 2 NaN among 3 scores"):
        pipeline.prediction(outputs, Sample("1", "who?", context="ada"))


def a_label(*objects: tuple[list[float], int]) -> str:
    """Return a label of boxes, as a row has it."""
    return json.dumps([{"box": box, "class": kind} for box, kind in objects])


def boxes(*rows: tuple[list[float], float, int]) -> Detections:
    """Return detections of corners, score and class."""
    return Detections(
        np.array([row[0] for row in rows], float).reshape(-1, 4),
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows], int),
    )


def test_mean_average_precision_is_known_for_simple_cases() -> None:
    """All right is 1, nothing is 0; one class of two missed halves it.

    A box with an overlap of 0.6 is right at 3 of 10 thresholds.
    """
    right = boxes(([0, 0, 10, 10], 0.9, 1), ([20, 20, 30, 40], 0.8, 2))
    label = a_label(([0, 0, 10, 10], 1), ([20, 20, 10, 20], 2))
    for found, wanted in (
        (right, 1.0),
        (boxes(), 0.0),
        (boxes(([0, 0, 10, 10], 0.9, 1)), 0.5),
        (boxes(([0, 0, 10, 6], 0.9, 1), ([20, 20, 30, 40], 0.8, 2)), 0.65),
    ):
        metric = METRICS["MAP"]()
        metric.add(found, label)
        value = metric.result()
        assert value is not None
        assert value.value == pytest.approx(wanted, abs=0.01)


def test_a_label_that_is_no_list_of_boxes_makes_its_sample_fail() -> None:
    """It is named, and the others go on."""
    for label in ("[", "{}", '[{"box": [1, 2]}]', None):
        with pytest.raises(SampleError):
            METRICS["MAP"]().add(boxes(), label)
