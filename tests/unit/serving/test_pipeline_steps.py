"""The server runs the steps of a manifest around its model, and names the step that fails."""

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from inferometer_models.errors import ModelRefusedError
from inferometer_serving.errors import RefusalReason, RequestRefusedError
from inferometer_serving.infer.datatypes import DATATYPES, FILE_BYTES
from inferometer_serving.infer.pending_request import PendingRequest
from inferometer_serving.infer.signature import Signature, TensorSpec
from inferometer_serving.infer.tensors import Array, from_raw
from inferometer_serving.model.engine import Engine, Execution
from inferometer_serving.model.loading import LoadedModel
from inferometer_serving.model.pipeline import with_steps
from inferometer_serving.model.placement import GraphPlacement
from inferometer_serving.model.session import Session
from inferometer_serving.request_router import add_parts
from inferometer_serving.statistics import Statistics
from inferometer_serving.tracing import RequestTrace, TraceContext

MANIFEST = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: sums
version: 1.0.0
license: MIT
framework: {name: onnxruntime}
inputs:
- name: in
  modality: Values
  steps: [{normalize: {divideBy: 2}}, {reshape: {shape: [2]}}]
outputs:
- name: out
  steps: [{softmax: {}}, {topK: {k: 1, labels: labels.txt}}]
assets: [{path: labels.txt, text: "a\\nb\\n"}]
"""
PYTHON = """\
apiVersion: inferometer.dev/v1alpha1
kind: ModelManifest
name: sums
version: 1.0.0
license: MIT
framework: {name: onnxruntime}
inputs: [{name: in}]
outputs: [{name: out}]
preprocess: |
  def preprocess(context, sample):
      return {"in": np.asarray(sample, np.float32)}
postprocess: |
  def postprocess(context, outputs):
      return int(outputs["out"].argmax())
"""


class Identity:
    """A model that returns what it gets, and keeps it."""

    def __init__(self) -> None:
        self.batches: list[list[list[float]]] = []

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the input."""
        assert output_names == ["out"]
        self.batches.append(inputs["in"].tolist())
        return [inputs["in"]]


def served(
    folder: Path,
    manifest: str = MANIFEST,
    *,
    rows: int = -1,
    classes: int = 2,
    allow_python: bool = False,
) -> tuple[Session, Identity]:
    """Return a session with the steps of a manifest, and its model."""
    file = folder / "model.yaml"
    file.write_text(manifest)
    model = Identity()
    fp32 = DATATYPES["FP32"]
    signature = Signature(
        (TensorSpec("in", fp32, (rows, 2)),), (TensorSpec("out", fp32, (rows, classes)),)
    )
    session = Session(model, signature, (), GraphPlacement({}, 0), False, "")
    loaded = with_steps(LoadedModel((session,), "", {}, 0.0), file, allow_python=allow_python)
    return loaded.session, model


def samples(*values: Any) -> dict[str, Array]:
    """Return the inputs of a request."""
    found = np.empty(len(values), np.object_)
    found[:] = [json.dumps(each).encode() for each in values]
    return {"sample": found}


def pending(inputs: dict[str, Array], trace: RequestTrace | None = None) -> PendingRequest[Any]:
    """Return a request for the best classes."""
    return PendingRequest(
        protocol="http",
        began_ns=0,
        inputs=inputs,
        output_names=["classes", "labels"],
        samples=len(inputs["sample"]),
        key=None,
        write=lambda results: [each.tolist() for each in results],
        trace=trace,
    )


def test_a_request_of_samples_is_answered_by_predictions(tmp_path: Path) -> None:
    """The model runs once for all of them; the server describes samples and predictions."""
    session, model = served(tmp_path)
    assert [each.name for each in session.signature.inputs] == ["sample"]
    assert [each.name for each in session.signature.outputs] == [
        "classes",
        "scores",
        "class_count",
        "labels",
    ]
    names = ["labels", "classes", "class_count"]
    labels, classes, count = session.runner.run(names, samples([2, 4], [8, 6]))
    assert model.batches == [[[1.0, 2.0], [4.0, 3.0]]]
    assert labels.tolist() == [["b"], ["a"]]
    assert classes.tolist() == [[1], [0]]
    assert count.tolist() == [2, 2]


def test_a_failing_step_is_named_and_fails_its_request_alone(tmp_path: Path) -> None:
    """Of three requests that were joined, the two others are answered."""
    session, model = served(tmp_path)
    requests = [pending(samples(each)) for each in ([2, 4], [1, 2, 3], [8, 6])]
    done = Engine(session, max_samples=8).compute(requests)
    assert [len(each.requests) for each in done] == [1, 1, 1]
    first, second, third = (each.answers[0] for each in done)
    assert (first, third) == ([[[1]], [["b"]]], [[[0]], [["a"]]])
    assert isinstance(second, RequestRefusedError)
    assert second.refusal is RefusalReason.INVALID
    assert str(second).startswith("The step reshape failed on this request: 3 values of shape [3]")
    assert len(model.batches) == 2
    stats = counted(done)
    assert stats["reshape"]["fail"]["count"] == 1
    assert stats["reshape"]["success"]["count"] == 2
    assert stats["topK"]["fail"]["count"] == 0


def counted(done: list[Execution]) -> dict[str, Any]:
    """Return the statistics of the steps of some executions."""
    statistics = Statistics()
    for execution in done:
        statistics.count_execution(execution, execution.written_ns)
    found: dict[str, Any] = statistics.to_document("m", "1")["response_stats"]
    return found


def test_the_steps_count_in_full_for_every_joined_request(tmp_path: Path) -> None:
    """Like all parts of a joined run; the model's time excludes them."""
    session, _ = served(tmp_path)
    done = Engine(session, max_samples=8).compute([pending(samples([2, 4], [1, 1]))] * 2)
    assert len(done) == 1
    steps = done[0].steps
    assert steps is not None
    totals: dict[str, int] = {}
    for name, began, ended in steps.spans:
        assert done[0].joined_ns <= began <= ended <= done[0].computed_ns
        totals[name] = totals.get(name, 0) + ended - began
    assert list(totals) == ["normalize", "reshape", "softmax", "topK"]
    assert [name for name, *_ in steps.spans].count("topK") == 4  # two samples in each of two
    assert done[0].infer_ns == steps.model_ended_ns - steps.model_began_ns
    assert counted(done) == {
        name: {"success": {"count": 2, "ns": 2 * ns}, "fail": {"count": 0, "ns": 0}}
        for name, ns in totals.items()
    }


def test_python_steps_run_by_permission_alone(tmp_path: Path) -> None:
    """Without the option the server refuses to start; with it Python takes the place of steps."""
    with pytest.raises(ModelRefusedError, match="--allow-python-steps"):
        served(tmp_path, PYTHON)
    session, _ = served(tmp_path, PYTHON, allow_python=True)
    (found,) = session.runner.run(["prediction"], samples([1, 5]))
    assert found.tolist() == ["1"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "at least one sample"),
        (["text"], "The step sample failed on this request: Its values are not a list"),
        ([[1, 2], [1, 2]], "the model takes one at a time"),
    ],
)
def test_a_request_that_cannot_be_prepared_is_refused(
    tmp_path: Path, values: list[Any], words: str
) -> None:
    """The sentence says what to send."""
    session, model = served(tmp_path, rows=1)
    with pytest.raises(RequestRefusedError, match=words):
        session.runner.run(["classes"], samples(*values))
    assert not model.batches


def test_pairs_of_texts_and_single_texts_reach_the_same_tokenizer(tmp_path: Path) -> None:
    """Requests may omit the context, and the model gets the tokens of one text then."""
    tokenizer = Tokenizer(models.WordLevel({"who": 1, "ann": 2, "did": 3}, unk_token="who"))  # noqa: S106 - a word
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "t.json"))
    step = "{tokenize: {tokenizer: t.json, maxLength: 2}}, {cast: {datatype: FP32}}"
    manifest = MANIFEST.replace("modality: Values", "modality: Text").replace(
        "{normalize: {divideBy: 2}}, {reshape: {shape: [2]}}", step
    )
    session, model = served(tmp_path, manifest)
    for inputs, tokens in (
        ({"sample": ["who"], "context": ["ann"]}, [1.0, 2.0]),
        ({"sample": ["ann did"]}, [2.0, 3.0]),
    ):
        session.signature.check_complete(list(inputs))
        given: dict[str, Array] = {
            name: np.array(texts, np.object_) for name, texts in inputs.items()
        }
        session.runner.run(["classes"], given)
        assert model.batches.pop() == [tokens]
    with pytest.raises(RequestRefusedError, match="Input 'sample' is missing"):
        session.signature.check_complete(["context"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: in", "name: inn", "the inputs .'inn'., but the model has"),
        ("a\\nb\\n", "a\\n", "has 1 labels, but the output 'out' distinguishes 2"),
        ("steps: [{softmax: {}}, {topK: {k: 1, labels: labels.txt}}]", "", "wanted"),
    ],
)
def test_a_manifest_that_does_not_fit_ends_the_start(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    """As the load generator refuses it before the first request."""
    assert old in MANIFEST
    manifest = MANIFEST.replace(old, new)
    if words == "wanted":
        manifest = manifest.replace(
            "steps: [{normalize: {divideBy: 2}}, {reshape: {shape: [2]}}]", ""
        )
        words = "has no steps"
    with pytest.raises(ModelRefusedError, match=words):
        served(tmp_path, manifest)


def test_samples_are_any_bytes() -> None:
    """A file has bytes that UTF-8 does not; the texts of a model do not."""
    content = b"\x89PNG\xff"
    raw = struct.pack("<I", len(content)) + content
    assert from_raw("sample", FILE_BYTES, (1,), raw).tolist() == [content]
    with pytest.raises(RequestRefusedError, match="not UTF-8"):
        from_raw("sample", DATATYPES["BYTES"], (1,), raw)


def test_each_step_is_a_part_of_a_traced_request(tmp_path: Path) -> None:
    """The parts follow each other, so that no moment counts twice."""
    session, _ = served(tmp_path)
    trace = RequestTrace(TraceContext("a" * 32, "b" * 16), "http", 0)
    request = pending(samples([2, 4]), trace)
    (done,) = Engine(session, max_samples=1).compute([request])
    add_parts(trace, request, done)
    ordered = sorted(trace.parts, key=lambda part: part[1:])
    assert [
        name for name, *_ in ordered if name not in {"batch", "queue", "input", "handover"}
    ] == [
        "decode",
        "step normalize",
        "step reshape",
        "compute",
        "step softmax",
        "step topK",
        "output",
        "encode",
    ]
    assert all(one[2] <= other[1] for one, other in pairwise(ordered))
