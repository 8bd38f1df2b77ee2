"""Steps in the server: the same predictions as in the load generator, and the share of each step.

The net and the images are made here; numpy knows the classes of the digits.
"""

import csv
import hashlib
import io
import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from inferometer_api.results.accuracy import AccuracyResult
from inferometer_api.results.result import ScenarioResult
from inferometer_api.suite.plan_suite import plan_suite
from support.digits import HELD_OUT, MANIFEST, DigitsNet, digits, trained_net, write_onnx
from support.inferometer_process import SHORT, ran, result_in
from support.local_runs import Done, done, together
from support.requirements import cannot_run
from support.suites import parsed

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVED = {"uri": "file:model.onnx", "pipeline": "Server"}
DIGITS = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1", "Top5"], "samples": HELD_OUT}
IMAGES = {"dataset": {"uri": "file:images.csv"}, "metrics": ["Top1"]}
STEPS = ["decode", "resize", "normalize", "layout", "softmax", "topK"]
OF_IMAGES = MANIFEST.replace("modality: Values", "modality: Image").replace(
    "      - normalize: {divideBy: 16}\n      - reshape: {shape: [1, 8, 8]}\n",
    """\
      - decode: {colorMode: Gray}
      - resize: {height: 8, width: 8, method: Box}
      - normalize: {divideBy: 255}
      - layout: {order: CHW}
""",
)
PYTHON = """
preprocess: |
  def preprocess(context, sample):
      return {"image": (np.asarray(sample, np.float32) / 16).reshape(1, 8, 8)}
postprocess: |
  def postprocess(context, outputs):
      return int(outputs["scores"].argmax())
"""


@pytest.fixture(scope="module")
def net() -> DigitsNet:
    """Train the net once."""
    return trained_net()


def measured(
    folder: Path, net: DigitsNet, *scenarios: Any, manifest: str = MANIFEST, **options: Any
) -> Done:
    """Run scenarios against the net; its manifest lies next to it."""
    folder.mkdir(exist_ok=True)
    write_onnx(net, folder / "model.onnx")
    if manifest:
        (folder / "model.yaml").write_text(manifest)
    return done(folder, *scenarios, **options)


def only(ended: Done) -> tuple[ScenarioResult, AccuracyResult]:
    """Return the one scenario of a complete run, and its measures."""
    assert ended.result is not None, ended.ended.stderr
    assert ended.result.outcome.state == "Complete", ended.result.outcome
    (scenario,) = ended.result.scenarios
    assert scenario.accuracy is not None
    return scenario, scenario.accuracy


def write_images(folder: Path, count: int, broken: int | None = None) -> None:
    """Write the first digits as PNG files, one of which may be no image."""
    images, labels = digits()
    with (folder / "images.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "file", "label"))
        for index in range(count):
            pixels = np.kron(np.rint(images[index] * 255).astype(np.uint8), np.ones((2, 2)))
            packed = io.BytesIO()
            Image.fromarray(pixels.astype(np.uint8)).save(packed, "PNG")
            content = b"no image" if index == broken else packed.getvalue()
            (folder / f"{index}.png").write_bytes(content)
            rows.writerow((f"i{index}", f"{index}.png", labels[index]))


def test_the_server_predicts_what_the_load_generator_would(tmp_path: Path, net: DigitsNet) -> None:
    """Over HTTP and gRPC, joined or not: the known accuracy to the sample, and the same misses."""
    images, labels = digits()
    images, labels = images[:HELD_OUT], labels[:HELD_OUT]
    best = np.argsort(-net.scores(images), axis=1, kind="stable")
    top1 = int((best[:, 0] == labels).sum())
    top5 = int((best[:, :5] == labels[:, None]).any(axis=1).sum())
    missed = np.flatnonzero(best[:, 0] != labels)[:20]
    written = MANIFEST.encode()
    batching = {"batching": {"maxBatchSize": 4, "maxDelayMicroseconds": 500}}
    specs: dict[str, dict[str, Any]] = {
        "HTTP": {"load": {"protocol": "HTTP", "connections": 4}, "server": batching},
        "GRPC": {"load": {"protocol": "GRPC"}},
    }
    runs = {
        name: partial(
            measured, tmp_path / name, net, {"accuracy": DIGITS}, spec={"model": SERVED, **spec}
        )
        for name, spec in specs.items()
    }
    with together(runs, 2) as futures:
        for future in futures.values():
            scenario, accuracy = only(future.result())
            assert scenario.verdict.state == "VALID", scenario.verdict
            result = future.result().result
            assert result is not None
            assert result.environment is not None
            served, read = result.environment.server.settings, result.environment.model.manifest
            assert read is not None
            assert read.sha256 == served["manifest_sha256"] == hashlib.sha256(written).hexdigest()
            assert {each.metric: (each.correct, each.samples) for each in accuracy.figures} == {
                "Top1": (top1, HELD_OUT),
                "Top5": (top5, HELD_OUT),
            }
            assert [(each.sample, each.predicted) for each in accuracy.wrong] == [
                (str(each), str(best[each, 0])) for each in missed
            ]
            spent = scenario.steps[0].server_time
            assert spent is not None
            assert spent.requests == HELD_OUT
            names = ["normalize", "reshape", "softmax", "topK"]
            assert [each.step for each in spent.steps] == names
            assert [(each.step, each.nanoseconds) for each in accuracy.steps] == [
                (each.step, each.nanoseconds) for each in spent.steps
            ]
            assert all(each.nanoseconds > 0 for each in spent.steps)


def test_a_step_that_fails_on_one_image_is_counted_and_named(
    tmp_path: Path, net: DigitsNet
) -> None:
    """The others go on, and have the classes that steps in the load generator give them."""
    folders = {place: tmp_path / place for place in ("Client", "Server")}
    for folder in folders.values():
        folder.mkdir()
        write_images(folder, 200, broken=3)
    runs = {
        place: partial(
            measured,
            folder,
            net,
            {"accuracy": IMAGES},
            manifest=OF_IMAGES,
            spec={"model": {**SERVED, "pipeline": place}},
        )
        for place, folder in folders.items()
    }
    with together(runs, 2) as futures:
        _, expected = only(futures["Client"].result())
        scenario, found = only(futures["Server"].result())
    assert (found.processed, found.failed) == (expected.processed, expected.failed) == (199, 1)
    assert found.figures == expected.figures
    assert found.wrong == expected.wrong
    assert [each.step for each in found.steps] == STEPS
    (failure,) = found.failures
    assert (failure.sample, failure.stage) == ("i3", "Request")
    assert "The step decode failed on this request: The image cannot be decoded" in failure.message
    spent = scenario.steps[0].server_time
    assert spent is not None
    assert {each.step: each.failed for each in spent.steps if each.failed} == {"decode": 1}


def test_a_load_of_images_has_the_share_of_each_step(tmp_path: Path, net: DigitsNet) -> None:
    """Statistics and traces agree that each step took a part of every latency."""
    write_images(tmp_path, 40)
    ended = measured(
        tmp_path,
        net,
        {"singleStream": {}, "sampledAccuracy": {**IMAGES, "sampleEvery": 1}},
        manifest=OF_IMAGES,
        spec={"model": SERVED, "load": {"tracing": {"sampleEvery": 1}}},
    )
    scenario, accuracy = only(ended)
    assert accuracy.processed == 40
    (step,) = scenario.steps
    spent, latency, tracing = step.server_time, step.latency, step.tracing
    assert spent is not None
    assert latency is not None
    assert tracing is not None
    assert [each.step for each in spent.steps] == STEPS
    in_steps = sum(each.nanoseconds for each in spent.steps)
    assert 0 < in_steps < latency.mean_nanoseconds
    shares = sum(each.share for each in spent.steps)
    assert shares == pytest.approx(in_steps / latency.mean_nanoseconds)
    parts = {each.name for each in tracing.parts}
    assert {f"step {name}" for name in STEPS} < parts
    assert "compute" in parts
    assert "Of the mean latency of" in ended.ended.stdout
    assert "decode" in ended.ended.stdout


def test_python_runs_in_the_server_by_permission_alone(tmp_path: Path, net: DigitsNet) -> None:
    """Without the option the server refuses to start; with it the classes are numpy's."""
    start, end = MANIFEST.index("inputs:"), MANIFEST.index("assets:")
    manifest = MANIFEST[:start] + "inputs: [{name: image}]\noutputs: [{name: scores}]" + PYTHON
    manifest += MANIFEST[end:]
    scenario = {"accuracy": {**DIGITS, "metrics": ["Top1"], "samples": 60}}
    options: dict[str, Any] = {"manifest": manifest, "spec": {"model": SERVED}}
    refused = measured(tmp_path, net, scenario, **options)
    assert refused.ended.code == 2
    assert "--allow-python-steps" in refused.ended.stderr
    ran = measured(
        tmp_path, net, scenario, words=("--allow-python-steps",), output="allowed", **options
    )
    _, accuracy = only(ran)
    images, labels = digits()
    right = int((net.scores(images[:60]).argmax(axis=1) == labels[:60]).sum())
    assert accuracy.figures[0].correct == right
    assert [each.step for each in accuracy.steps] == ["preprocess", "postprocess"]


def test_a_model_without_a_manifest_is_refused(tmp_path: Path, net: DigitsNet) -> None:
    """Before anything starts."""
    ended = measured(tmp_path, net, {"accuracy": DIGITS}, manifest="", spec={"model": SERVED})
    assert ended.ended.code == 2
    assert "the model has no manifest: put model.yaml next to it" in ended.ended.stderr


def test_openvino_runs_the_same_steps(tmp_path: Path, net: DigitsNet) -> None:
    """The known accuracy to the sample, and the share of each step."""
    if find_spec("openvino") is None:
        cannot_run("OpenVINO, of the extra `openvino`, is not installed.")
    ended = measured(
        tmp_path,
        net,
        {"accuracy": {**DIGITS, "metrics": ["Top1"]}},
        manifest=(EXAMPLES / "17-accuracy/model.yaml").read_text(),
        spec={"model": SERVED, "server": {"runtime": "OpenVino", "precision": "FP32"}},
    )
    scenario, accuracy = only(ended)
    images, labels = digits()
    right = int((net.scores(images[:HELD_OUT]).argmax(axis=1) == labels[:HELD_OUT]).sum())
    assert [(each.correct, each.samples) for each in accuracy.figures] == [(right, HELD_OUT)]
    spent = scenario.steps[0].server_time
    assert spent is not None
    assert [each.step for each in spent.steps] == ["normalize", "reshape", "softmax", "topK"]
    assert all(each.share > 0 for each in spent.steps)
    assert ended.result is not None
    assert ended.result.environment is not None
    model = ended.result.environment.model
    assert model.manifest is not None
    assert model.manifest.resolved_engine == "openvino"


def test_the_example_compares_both_places(tmp_path: Path) -> None:
    """All predictions are right in both; only the server's statistics have steps."""
    copytree(EXAMPLES / "26-pipeline", tmp_path / "26-pipeline")
    suite = yaml.safe_load((EXAMPLES / "26-pipeline.yaml").read_text())
    suite["spec"]["template"]["spec"]["validity"] = SHORT
    del suite["spec"]["repeats"]
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    env = {"XDG_DATA_HOME": str(tmp_path / "data")}
    ended = ran(tmp_path, "run", "suite.yaml", "--output", "out", env=env)
    assert ended.code in {0, 3}, ended.stderr
    found = {}
    for planned in plan_suite(parsed(suite), place="Local").runs:
        result = result_in(tmp_path / "out" / planned.name)
        (scenario,) = result.scenarios
        assert scenario.accuracy is not None
        (figure,) = scenario.accuracy.figures
        assert figure.correct == figure.samples > 0
        spent = scenario.steps[0].server_time
        assert spent is not None
        found[result.run.spec.model.pipeline] = [each.step for each in spent.steps]
    steps = ["decode", "resize", "crop", "normalize", "layout", "softmax", "topK"]
    assert found == {"Client": [], "Server": steps}
