"""Bad manifests, data sets and samples: refused before anything starts, or counted and named."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferometer_api.results.result import ResultDocument
from inferometer_loadgen.task.evaluation import Evaluation
from inferometer_results.compare.accuracy import accuracy_differences
from inferometer_tasks.datasets.dataset import open_dataset
from inferometer_tasks.sample import Sample
from support.digits import MANIFEST, DigitsNet, trained_net, write_onnx
from support.inferometer_process import ran
from support.local_runs import Done, done


@pytest.fixture(scope="module")
def net() -> DigitsNet:
    """Train the net once; its accuracy does not matter here."""
    return trained_net(rounds=1)


def rows(count: int, **changed: Any) -> str:
    """Return a JSONL of digits whose third sample is changed."""
    plain = {"values": [[0] * 8] * 8, "label": 1}
    return "".join(
        json.dumps({"id": f"s{i}", **(changed if i == 2 and changed else plain)}) + "\n"
        for i in range(count)
    )


def evaluated(
    folder: Path, net: DigitsNet, data: str, manifest: str = MANIFEST, **accuracy: Any
) -> Done:
    """Evaluate the net on a list of samples."""
    folder.mkdir(exist_ok=True)
    write_onnx(net, folder / "model.onnx")
    (folder / "data.jsonl").write_text(data)
    if manifest:
        (folder / "model.yaml").write_text(manifest)
    scenario = {"dataset": {"uri": "file:data.jsonl"}, "metrics": ["Top1"], **accuracy}
    return done(folder, {"accuracy": scenario})


@pytest.mark.parametrize(
    ("changed", "stage", "words"),
    [
        ({"values": [[0] * 9] * 8, "label": 1}, "Input", "do not fit the shape [1, 8, 8]"),
        ({"values": "text", "label": 1}, "Input", "not a list of numbers"),
        ({"file": "absent.png", "label": 1}, "Input", "is no file"),
        ({"values": [[0] * 8] * 8, "label": 77}, "Output", "distinguishes 10 classes"),
    ],
)
def test_a_sample_that_fails_is_counted_and_named(
    tmp_path: Path, net: DigitsNet, changed: dict[str, Any], stage: str, words: str
) -> None:
    """The rest goes on; 1 of 5 is too many, so the verdict is INVALID."""
    ended = evaluated(tmp_path, net, rows(5, **changed))
    assert ended.result is not None, ended.ended.stderr
    assert ended.outcome == ("Complete", "Measured")
    (scenario,) = ended.result.scenarios
    assert scenario.accuracy is not None
    assert (scenario.accuracy.processed, scenario.accuracy.failed) == (4, 1)
    (failure,) = scenario.accuracy.failures
    assert (failure.sample, failure.stage) == ("s2", stage)
    assert words in failure.message
    assert [each.rule for each in scenario.verdict.reasons] == ["ErrorRate"]
    assert ended.ended.code == 3


def test_two_files_of_one_name_have_two_checksums(tmp_path: Path, net: DigitsNet) -> None:
    """The result has that of the samples, and `compare` reads it."""

    def result(folder: str, **changed: Any) -> ResultDocument:
        found = evaluated(tmp_path / folder, net, rows(5, **changed)).result
        assert found is not None
        return found

    first, same, other = result("a"), result("b"), result("c", values=[[1] * 8] * 8, label=1)
    for document, differ in ((same, False), (other, True)):
        (sentence,) = accuracy_differences(first, document)
        assert ("The samples differ." in sentence) == differ


def test_an_evaluation_says_what_it_did_not_judge(tmp_path: Path, net: DigitsNet) -> None:
    """Its advice on failures, fewer samples than requested, and expected outputs."""
    expected = "expectedOutputs: [{sample: s0, prediction: none}, {sample: s9, prediction: '1'}]\n"
    data = rows(5, values=[[0] * 8] * 8)
    ended = evaluated(tmp_path, net, data, MANIFEST + expected, samples=5000)
    assert ended.result is not None, ended.ended.stderr
    (scenario,) = ended.result.scenarios
    (reason,) = scenario.verdict.reasons
    assert "Failed samples count in no measure, and may be the harder ones." in reason.message
    assert "rejects load" not in reason.message
    (caution,) = scenario.verdict.cautions
    assert caution.rule == "UnexpectedPrediction"
    assert "1 of 1 predictions differ from the manifest's expectedOutputs" in caution.message
    assert "a sample that was not evaluated (s9)" in caution.message
    assert ended.result.environment is not None
    assert (
        "The data set of s0 has 5 samples, fewer than the 5,000 in accuracy.samples: all are sent."
    ) in ended.result.environment.notes
    assert scenario.accuracy is not None
    assert [each.step for each in scenario.accuracy.steps] == [
        "normalize",
        "reshape",
        "softmax",
        "topK",
    ]


def test_the_progress_counts_the_samples(tmp_path: Path, net: DigitsNet) -> None:
    """From the first one on, with the time left by their rate; nothing is prepared before."""
    write_onnx(net, tmp_path / "model.onnx")
    (tmp_path / "data.jsonl").write_text(rows(5000))
    scenario = {"dataset": {"uri": "file:data.jsonl"}, "metrics": ["Top1"]}
    ended = done(tmp_path, {"accuracy": scenario}, words=("--progress", "json")).ended
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    sent = [each for each in events if each.get("stage") == "Measuring"]
    assert {each["sampleCount"] for each in sent} == {5000}
    assert sent[-1]["queries"] == round(5000 * sent[-1]["fraction"]) > 0
    assert sent[-1]["secondsLeft"] >= 0
    assert all(each["fraction"] == 0 for each in events if each.get("stage") == "Preparing")


def test_a_run_stops_at_the_first_failure_if_asked(tmp_path: Path, net: DigitsNet) -> None:
    """`onSampleError: Stop`: what was measured until then is kept, and INVALID."""
    data = rows(2000, values="text", label=1)
    ended = evaluated(tmp_path, net, data, onSampleError="Stop")
    assert ended.result is not None, ended.ended.stderr
    (scenario,) = ended.result.scenarios
    assert scenario.accuracy is not None
    assert scenario.accuracy.processed < 1000
    assert "EndedEarly" in [each.rule for each in scenario.verdict.reasons]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (">=1.20 <2", ">=90 <91", "the nearest is onnxruntime"),
        ("memory: 64Mi", "memory: 900Ti", "900Ti of memory"),
        ("8\\n9\\n", "8\\n", "has 9 labels, but the output 'scores' distinguishes 10 classes"),
        ("name: scores", "name: scoers", "the outputs ['scoers'], but the model has ['scores']"),
        ("version: 1.0.0", "version: one", "a semantic version"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    tmp_path: Path, net: DigitsNet, old: str, new: str, words: str
) -> None:
    """Before any request, with what was found and what to do; by `validate` as well."""
    assert old in MANIFEST
    ended = evaluated(tmp_path, net, rows(3), MANIFEST.replace(old, new))
    assert ended.ended.code == 2
    assert words in ended.ended.stderr
    checked = ran(tmp_path, "validate", "run.yaml")
    assert checked.code == 2
    assert words in checked.stderr


def _bomb(folder: Path) -> None:
    with (
        zipfile.ZipFile(folder / "data.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("zeros", "w") as file,
    ):
        for _ in range(100):
            file.write(bytes(1 << 20))


def _escape(folder: Path) -> None:
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("../evil", "evil")


@pytest.mark.parametrize(
    ("make", "words"), [(_bomb, "may be a bomb"), (_escape, "leaves its folder")]
)
def test_a_hostile_archive_is_refused(
    tmp_path: Path, net: DigitsNet, make: Callable[[Path], None], words: str
) -> None:
    """Nothing is sent, and nothing stays behind."""
    make(tmp_path)
    ended = evaluated(tmp_path, net, rows(1), dataset={"uri": "file:data.zip"})
    assert ended.ended.code == 2
    assert words in ended.ended.stderr
    assert not ended.temporary


def test_a_data_set_with_another_checksum_is_refused(tmp_path: Path, net: DigitsNet) -> None:
    """It is another file."""
    dataset = {"uri": "file:data.jsonl", "sha256": "a" * 64}
    ended = evaluated(tmp_path, net, rows(1), dataset=dataset)
    assert ended.ended.code == 2
    assert "it is another file" in ended.ended.stderr


PYTHON = """
preprocess: |
  def preprocess(context, sample):
      return {"image": (np.asarray(sample, np.float32) / 16).reshape(1, 8, 8)}
postprocess: |
  def postprocess(context, outputs):
      return int(outputs["scores"].argmax())
"""


def test_python_steps_run_only_by_permission(tmp_path: Path, net: DigitsNet) -> None:
    """Without the option the run is refused; with it the functions take the place of steps."""
    start = MANIFEST.index("inputs:")
    end = MANIFEST.index("assets:")
    manifest = MANIFEST[:start] + "inputs: [{name: image}]\noutputs: [{name: scores}]" + PYTHON
    manifest += MANIFEST[end:]
    refused = evaluated(tmp_path, net, rows(3), manifest)
    assert refused.ended.code == 2
    assert "--allow-python-steps" in refused.ended.stderr
    write_onnx(net, tmp_path / "model.onnx")
    scenario = {"dataset": {"uri": "file:data.jsonl"}, "metrics": ["Top1"]}
    ran = done(tmp_path, {"accuracy": scenario}, words=("--allow-python-steps",), output="allowed")
    assert ran.result is not None, ran.ended.stderr
    accuracy = ran.result.scenarios[0].accuracy
    assert accuracy is not None
    assert accuracy.processed == 3
    assert [each.step for each in accuracy.steps] == ["preprocess", "postprocess"]


def test_an_unforeseen_exception_fails_its_sample(tmp_path: Path, net: DigitsNet) -> None:
    """A prediction that cannot be read: the sample is counted and named, and the rest goes on."""
    start, end = MANIFEST.index("inputs:"), MANIFEST.index("assets:")
    raising = 'type("Lazy", (), {"__array__": lambda *_, **__: 1 / 0})()'
    python = PYTHON.replace("return int", f'return {raising} if context["context"] else int')
    manifest = MANIFEST[:start] + "inputs: [{name: image}]\noutputs: [{name: scores}]" + python
    write_onnx(net, tmp_path / "model.onnx")
    (tmp_path / "model.yaml").write_text(manifest + MANIFEST[end:])
    data = rows(5, values=[[0] * 8] * 8, label=1, context="raising")
    (tmp_path / "data.jsonl").write_text(data)
    scenario = {"dataset": {"uri": "file:data.jsonl"}, "metrics": ["Top1"]}
    ended = done(tmp_path, {"accuracy": scenario}, words=("--allow-python-steps",))
    assert ended.result is not None, ended.ended.stderr
    assert ended.outcome == ("Complete", "Measured")
    accuracy = ended.result.scenarios[0].accuracy
    assert accuracy is not None
    assert (accuracy.processed, accuracy.failed) == (4, 1)
    (failure,) = accuracy.failures
    assert (failure.sample, failure.stage) == ("s2", "Output")
    assert "Internal error in the steps after the model: ZeroDivisionError" in failure.message


def test_a_million_samples_need_no_more_memory(tmp_path: Path) -> None:
    """Reading and counting 1,000,000 samples, 1 in 3 wrong, keeps less than 32 MiB more."""
    path = tmp_path / "samples.csv"
    count = 1_000_000
    with path.open("w") as file:
        file.write("text,label\n")
        for _ in range(count // 10):
            file.write("a,a\nb,a\na,a\n" * 3 + "a,a\n")
    evaluation = Evaluation(["ExactMatch", "F1"], {})
    before = psutil.Process().memory_info().rss
    dataset = open_dataset("file:samples.csv", path, tmp_path)
    for index, sample in enumerate(dataset.read()):
        assert isinstance(sample, Sample)
        evaluation.add(index, sample, str(sample.content))
    grown = psutil.Process().memory_info().rss - before
    figure = evaluation.figures()[0]
    assert (evaluation.processed, figure.correct) == (count, 7 * count // 10)
    assert len(evaluation.wrong) == 20
    assert grown < 32 << 20
