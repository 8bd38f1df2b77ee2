"""Samples and predictions survive the way to a server that runs the steps, and back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.results.result import Tensor
from inferometer_tasks.assets import Assets
from inferometer_tasks.errors import SampleError, TaskRefusedError
from inferometer_tasks.metrics.table import METRICS
from inferometer_tasks.prediction_forms import prediction_form
from inferometer_tasks.python_steps import PythonSteps
from inferometer_tasks.sample import Classes, Detections, Mask, Sample, ScoredClass
from inferometer_tasks.served_steps import (
    CONTEXT,
    SAMPLE,
    ServedSteps,
    received_sample,
    sample_tensors,
)

OUTPUT = Tensor(name="out", datatype="FP32", shape=[-1, 3])


def manifest(
    *steps: dict[str, Any], modality: str = "Values", before: Any = (), **more: Any
) -> ModelManifest:
    """Return a manifest with steps before and after the model."""
    document: dict[str, Any] = {
        "apiVersion": "inferometer.dev/v1alpha1",
        "kind": "ModelManifest",
        "name": "m",
        "version": "1.0.0",
        "license": "MIT",
        "framework": {"name": "onnxruntime"},
        "inputs": [{"name": "in", "modality": modality, "steps": list(before)}],
        "outputs": [{"name": "out", "steps": list(steps)}],
        **more,
    }
    return ModelManifest.model_validate(document)


def best(*indices: int, labels: tuple[str, ...] = ()) -> Classes:
    """Return classes of three, with scores that fall."""
    named = labels or ("",) * len(indices)
    scored = (
        ScoredClass(each, 1 / (place + 3), label)
        for place, (each, label) in enumerate(zip(indices, named, strict=True))
    )
    return Classes(tuple(scored), 3)


def boxes(count: int) -> Detections:
    """Return some boxes."""
    corners = np.arange(4.0 * count).reshape(count, 4)
    return Detections(corners, np.linspace(0.9, 0.5, count), np.arange(count))


@pytest.mark.parametrize(
    ("steps", "more", "predictions"),
    [
        ([{"topK": {"k": 2}}], {}, [best(1, 0), best(2, 1)]),
        (
            [{"softmax": {}}, {"topK": {"k": 2, "labels": "l.txt"}}],
            {"assets": [{"path": "l.txt", "text": "a\nä\nc"}]},
            [best(1, 0, labels=("ä", "a")), best(2, 0, labels=("c", "a"))],
        ),
        ([{"boxes": {}}], {}, [boxes(0), boxes(3), boxes(1)]),
        ([{"boxes": {}}], {}, [boxes(0)]),
        ([{"argmaxMask": {}}], {}, [Mask(np.arange(6).reshape(2, 3)), Mask(np.ones((2, 3), int))]),
        ([{"mask": {}}], {}, [Mask(np.arange(6).reshape(2, 3)), Mask(np.ones((2, 3), int))]),
        ([{"ctc": {"vocabulary": "v.txt"}}], {}, ["", "grün"]),
        ([{"softmax": {}}], {}, [np.array([0.1, 0.2, 1 / 3]), np.zeros(3)]),
        ([], {}, [np.array([1, 2, 3], np.float32)]),
        ([], {"postprocess": "x", "outputs": [{"name": "out"}]}, [best(2), "text"][:1]),
        ([], {"postprocess": "x", "outputs": [{"name": "out"}]}, ["text", "ü"]),
        ([], {"postprocess": "x", "outputs": [{"name": "out"}]}, [np.array([[1, 2]])]),
    ],
)
def test_predictions_survive_the_way_through_tensors(
    steps: list[dict[str, Any]], more: dict[str, Any], predictions: list[Any]
) -> None:
    """Each row of the server's tensors gives the prediction that the load generator would make."""
    of_model = manifest(*steps, before=[{"cast": {"datatype": "FP32"}}], **more)
    shapes = {"argmaxMask": [-1, 5, 2, 3], "mask": [-1, 2, 3]}
    shape = next((shapes[name] for step in steps for name in step if name in shapes), OUTPUT.shape)
    form = prediction_form(of_model, [OUTPUT.model_copy(update={"shape": shape})])
    tensors = form.encode(predictions)
    assert {each.name for each in form.tensors} <= set(tensors)
    for each in form.tensors:
        assert tensors[each.name].ndim == len(each.shape)
        assert len(tensors[each.name]) == len(predictions)
    client = ServedSteps(of_model, Assets(of_model, Path()), form.tensors)
    sent = [each.name for each in form.tensors]
    for row, wanted in enumerate(predictions):
        # A client that takes a row by its index gets an element where the row is one.
        for rows in (
            {name: tensors[name][row] for name in sent},
            {name: tensors[name][row, ...] for name in sent},
        ):
            check_same(client.prediction(rows, Sample("s", b"")), wanted)


PRE = "import sys\ndef preprocess(context, sample):\n    {}\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sys.exit(3)", r"preprocess failed: SystemExit\(3\)"),
        ("raise KeyboardInterrupt", r"preprocess failed: KeyboardInterrupt\(\)"),
        ("return None", "preprocess returned None: it must return the inputs by name"),
        ("return [1]", r"preprocess returned \[1\]: it must return the inputs by name"),
    ],
)
def test_python_that_returns_no_inputs_makes_its_sample_fail(
    line: str, words: str, tmp_path: Path
) -> None:
    """The others go on: a script that ends itself does not end the server or the load generator."""
    of_model = manifest(preprocess=PRE.format(line))
    with pytest.raises(SampleError, match=words):
        PythonSteps(of_model, Assets(of_model, tmp_path)).inputs(Sample("s", b""))


POST = "def postprocess(context, outputs):\n    return {}\n"


def predicted(value: str, folder: Path) -> list[Any]:
    """Return what a model's own Python predicts, in the load generator and through a server."""
    of_model = manifest(postprocess=POST.format(value))
    assets = Assets(of_model, folder)
    here = PythonSteps(of_model, assets).prediction({"out": np.arange(3)}, Sample("s", b""))
    form = prediction_form(of_model, [OUTPUT])
    rows = {name: each[0] for name, each in form.encode([here]).items()}
    served = ServedSteps(of_model, assets, form.tensors)
    return [here, served.prediction(rows, Sample("s", b""))]


@pytest.mark.parametrize("value", ["2", "outputs['out'].argmax()", "outputs['out'].max()"])
def test_a_class_of_own_python_is_compared_with_every_label(value: str, tmp_path: Path) -> None:
    """Python does not say how many classes there are: of six labels, one is right."""
    for found in predicted(value, tmp_path):
        metric = METRICS["Top1"]()
        assert [metric.add(found, each) for each in range(6)] == [0, 0, 1, 0, 0, 0]
        result = metric.result()
        assert result is not None
        assert (result.correct, result.samples) == (1, 6)
        with pytest.raises(SampleError, match="classes begin with 0"):
            metric.add(found, -1)
        with pytest.raises(SampleError, match="postprocess returns numbers"):
            metric.add(found, "two")
        with pytest.raises(TaskRefusedError, match="postprocess returns one: measure Top1"):
            METRICS["Top5"]().add(found, 2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-1", "the class -1, but classes begin with 0"),
        ("None", "returned None: it must return"),
        ("True", "returned True: it must return"),
        ("{'class': 1}", "it must return a class's number"),
        ("[[1], [1, 2]]", "returned no array"),
        ("['a']", "it must return a class's number"),
    ],
)
def test_what_is_no_prediction_makes_its_sample_fail(
    value: str, words: str, tmp_path: Path
) -> None:
    """It is not read as a class."""
    with pytest.raises(SampleError, match=words):
        predicted(value, tmp_path)


def check_same(found: Any, wanted: Any) -> None:
    """Compare predictions, arrays and all."""
    assert type(found) is type(wanted)
    match wanted:
        case Detections():
            assert found.boxes.tolist() == wanted.boxes.tolist()
            assert found.scores.tolist() == wanted.scores.tolist()
            assert found.classes.tolist() == wanted.classes.tolist()
        case Mask():
            assert found.classes.tolist() == wanted.classes.tolist()
        case np.ndarray():
            assert found.tolist() == wanted.tolist()
        case Classes(best=(ScoredClass(index=2, score=score),)) if score > 0.3:
            assert found.best[0].index == 2  # Python returned a class, and no score
        case _:
            assert found == wanted


@pytest.mark.parametrize(
    ("modality", "content"),
    [
        ("Image", b"\x89PNG\x00\xff"),
        ("File", b""),
        ("Text", "grüße"),
        ("Values", np.array([[0, 16], [3, 255]], np.uint8)),
        ("Values", np.array([1 / 3, 1e-30])),
    ],
)
def test_samples_survive_the_way_to_the_server(modality: str, content: Any) -> None:
    """Files are their bytes, texts UTF-8, and values JSON that loses nothing."""
    of_model = manifest(modality=modality, before=[], preprocess="x")
    client = ServedSteps(of_model, Assets(of_model, Path()), [OUTPUT])
    sent = client.inputs(Sample("s", content))
    assert [each.name for each in sample_tensors(of_model)] == list(sent) == [SAMPLE]
    assert sent[SAMPLE].shape == ()
    found = received_sample(of_model, sent[SAMPLE].item()).content
    if isinstance(content, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert found.tolist() == content.tolist()
    else:
        assert found == content


@pytest.mark.parametrize(
    "after", [{"span": {"end": "end", "tokenizer": "t.json", "maxLength": 8}}, {"topK": {"k": 1}}]
)
def test_a_text_travels_with_its_context(after: dict[str, Any]) -> None:
    """The steps span and tokenize take a second input, which samples without a context omit."""
    pairs = manifest(
        after, modality="Text", before=[{"tokenize": {"tokenizer": "t.json", "maxLength": 8}}]
    )
    client = ServedSteps(pairs, Assets(pairs, Path()), [OUTPUT])
    assert [each.name for each in sample_tensors(pairs)] == [SAMPLE, CONTEXT]
    for asked in (Sample("s", "Who?", context="It was Ann."), Sample("s", "Who?", context="")):
        sent = client.inputs(asked)
        received = received_sample(pairs, sent[SAMPLE].item(), sent[CONTEXT].item())
        assert (received.content, received.context) == (asked.content, asked.context)
    assert list(client.inputs(Sample("s", "Who?"))) == [SAMPLE]


def test_a_context_that_no_step_takes_is_refused() -> None:
    """It is not dropped."""
    asked = Sample("s", "Who?", context="It was Ann.")
    plain = manifest({"softmax": {}}, modality="Text")
    with pytest.raises(SampleError, match="pipeline: Client"):
        ServedSteps(plain, Assets(plain, Path()), [OUTPUT]).inputs(asked)


@pytest.mark.parametrize(
    ("modality", "content", "words"),
    [
        ("Text", b"\xff", "not UTF-8"),
        ("Values", b"{", "not JSON"),
        ("Values", b"\xff", "not JSON"),
        ("Values", b'["a"]', "not a list of numbers"),
        ("Values", b"[[1], [1, 2]]", "not JSON"),
    ],
)
def test_what_is_no_sample_is_the_fault_of_its_request(
    modality: str, content: bytes, words: str
) -> None:
    """The message says what is wrong."""
    with pytest.raises(SampleError, match=words):
        received_sample(manifest(modality=modality), content)


def test_a_manifest_that_a_server_cannot_run_is_refused() -> None:
    """Without a step there is nothing to run; a request carries one kind of sample."""
    with pytest.raises(TaskRefusedError, match="has no steps"):
        sample_tensors(manifest())
    mixed = manifest({"softmax": {}}, inputs=[{"name": "a"}, {"name": "b", "modality": "Text"}])
    with pytest.raises(TaskRefusedError, match="modalities"):
        sample_tensors(mixed)
    with pytest.raises(TaskRefusedError, match="but the model has"):
        prediction_form(manifest({"softmax": {}}), [Tensor(name="x", datatype="FP32", shape=[1])])


def test_a_reply_that_is_no_prediction_fails_its_sample() -> None:
    """A server that replies otherwise is no reason to end the run."""
    of_model = manifest({"topK": {"k": 1}})
    client = ServedSteps(of_model, Assets(of_model, Path()), [OUTPUT])
    with pytest.raises(SampleError, match="no prediction"):
        client.prediction({"scores": np.zeros(1)}, Sample("s", b""))


def test_a_label_that_no_class_has_fails_its_sample_here_too() -> None:
    """A reply has the name of the best class only; the others are in the manifest."""
    of_model = manifest(
        {"topK": {"k": 1, "labels": "l.txt"}}, assets=[{"path": "l.txt", "text": "cat\ndog\n"}]
    )
    client = ServedSteps(of_model, Assets(of_model, Path()), [OUTPUT])
    reply = {
        "classes": np.array([1]),
        "scores": np.array([0.9]),
        "class_count": np.array(2),
        "labels": np.array([b"dog"], object),
    }
    found, metric = client.prediction(reply, Sample("s", b"")), METRICS["Top1"]()
    with pytest.raises(SampleError, match="none of the 2 names"):
        metric.add(found, "bird")
    assert [metric.add(found, each) for each in ("cat", "dog", 1)] == [False, True, True]
