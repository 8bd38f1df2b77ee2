"""A model with known accuracy is evaluated: the figures equal the known ones to the sample."""

import hashlib
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferometer_api.results.accuracy import AccuracyResult
from support.digits import HELD_OUT, MANIFEST, DigitsNet, digits, trained_net, write_onnx
from support.local_runs import Done, done, together

ACCURACY = {
    "dataset": {"uri": "builtin://digits"},
    "metrics": ["Top1", "Top5"],
    "samples": HELD_OUT,
}
SCENARIO: dict[str, Any] = {"accuracy": ACCURACY}


@pytest.fixture(scope="module")
def net() -> DigitsNet:
    """Train the net once."""
    return trained_net()


def evaluated(folder: Path, net: DigitsNet, protocol: str) -> Done:
    """Evaluate the net over a protocol; its manifest lies next to it."""
    folder.mkdir()
    write_onnx(net, folder / "model.onnx")
    (folder / "model.yaml").write_text(MANIFEST)
    return done(folder, SCENARIO, spec={"load": {"protocol": protocol}})


def test_accuracy_equals_the_known_one_to_the_sample(tmp_path: Path, net: DigitsNet) -> None:
    """Over HTTP and gRPC: numpy predicts the same classes, right and wrong ones alike."""
    images, labels = digits()
    images, labels = images[:HELD_OUT], labels[:HELD_OUT]
    best = np.argsort(-net.scores(images), axis=1, kind="stable")
    top1 = int((best[:, 0] == labels).sum())
    top5 = int((best[:, :5] == labels[:, None]).any(axis=1).sum())
    assert 0.9 * HELD_OUT < top1 < HELD_OUT  # trained, and not perfect
    missed = np.flatnonzero(best[:, 0] != labels)[:20]
    runs = {
        protocol: partial(evaluated, tmp_path / protocol, net, protocol)
        for protocol in ("HTTP", "GRPC")
    }
    with together(runs, 2) as futures:
        for future in futures.values():
            accuracy = accuracy_of(future.result())
            check_manifest(future.result(), tmp_path / "HTTP/model.yaml")
            assert {each.metric: (each.correct, each.samples) for each in accuracy.figures} == {
                "Top1": (top1, HELD_OUT),
                "Top5": (top5, HELD_OUT),
            }
            assert [(each.sample, each.expected, each.predicted) for each in accuracy.wrong] == [
                (str(each), str(labels[each]), str(best[each, 0])) for each in missed
            ]
            assert accuracy.dataset.license == "CC-BY-4.0"
            assert [each.step for each in accuracy.steps] == [
                "normalize",
                "reshape",
                "softmax",
                "topK",
            ]


def test_accuracy_beside_a_load_equals_the_known_one(tmp_path: Path, net: DigitsNet) -> None:
    """A load of each sample at least once finds the same classes; one of fewer replies a part."""
    images, labels = digits()
    known = net.scores(images[:HELD_OUT]).argmax(axis=1) == labels[:HELD_OUT]
    sampled = {"dataset": {"uri": "builtin://digits"}, "metrics": ["Top1"], "samples": HELD_OUT}
    write_onnx(net, tmp_path / "model.onnx")
    (tmp_path / "model.yaml").write_text(MANIFEST)
    run = done(
        tmp_path,
        {"server": {"targetQps": 200}, "sampledAccuracy": {**sampled, "sampleEvery": 1}},
        {"singleStream": {}, "sampledAccuracy": {**sampled, "sampleEvery": 7}},
        validity={"minQueries": HELD_OUT},
    )
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    assert run.result is not None
    whole, part = (each.accuracy for each in run.result.scenarios)
    assert whole is not None
    assert (whole.figures[0].correct, whole.processed, whole.failed) == (known.sum(), HELD_OUT, 0)
    assert part is not None
    assert part.requested == HELD_OUT
    assert 0 < part.processed < HELD_OUT or run.result.scenarios[1].steps[0].counts.queries > 5000
    assert all(each.steps[0].latency is not None for each in run.result.scenarios)


def accuracy_of(ended: Done) -> AccuracyResult:
    """Return the measures of a valid run."""
    assert ended.result is not None, ended.ended.stderr
    assert ended.result.outcome.state == "Complete", ended.result.outcome
    (scenario,) = ended.result.scenarios
    assert scenario.verdict.state == "VALID", scenario.verdict
    assert scenario.accuracy is not None
    return scenario.accuracy


def check_manifest(ended: Done, manifest: Path) -> None:
    """Check that the result names the manifest and the engine that its constraint became."""
    assert ended.result is not None
    assert ended.result.environment is not None
    info = ended.result.environment.model.manifest
    assert info is not None
    assert (info.name, info.version) == ("digits-net", "1.0.0")
    assert info.sha256 == hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert (info.resolved_engine, info.resolved_version) == ("onnxruntime", version("onnxruntime"))
