"""`inferometer tune` searches and confirms on the real machine."""

import json
from pathlib import Path

import numpy as np
import yaml

from support.digits import MANIFEST, digits, trained_net, write_onnx
from support.inferometer_process import ran, started

_DEADLINE_SECONDS = 480.0
"""Six searches of 10 s and two dozen starts of a server, if other processes disturb each."""


def test_the_best_settings_are_confirmed_and_written(tmp_path: Path) -> None:
    """Every candidate has a trial, three are confirmed on fresh seeds, and the best is a run."""
    words = (
        # Probes of 459 queries see a growing queue within 150 ms at up to 1,800 queries a second.
        *("tune", "zoo://classification/shufflenet_v2_x0_5", "--p99", "150ms"),
        *("--engines", "OnnxRuntime", "--batches", "4", "--seconds", "5", "--output", "out"),
        *("--set", "spec.validity.maxDurationSeconds=10"),
        *("--set", "spec.scenarios[0].findPeak.probe.minQueries=459"),
        *("--set", "spec.validity.minDurationSeconds=1"),
    )
    with started(tmp_path, *words) as process:
        ended = process.ended(_DEADLINE_SECONDS)
    assert ended.code in {0, 3}, ended.stderr
    found = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert {each["candidate"] for each in found["trials"]} == set(range(len(found["candidates"])))
    seeds = {each["seed"] for each in found["confirmed"]}
    assert len(seeds) == len(found["confirmed"]) == 3
    order = [(each["verdict"] != "VALID", -each["qps"]) for each in found["confirmed"]]
    assert order == sorted(order)
    best = yaml.safe_load((tmp_path / "out" / "best.yaml").read_text())
    server = found["confirmed"][0]["server"]
    assert {name: best["spec"]["server"][name] for name in server} == server
    assert f"1. {found['confirmed'][0]['qps']:.1f} queries/s" in ended.stdout


def test_an_engine_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    """Nothing is measured if an engine is missing."""
    ended = ran(tmp_path, "tune", "m.onnx", "--p99", "50ms", "--engines", "Triton")
    assert ended.code == 2
    assert "Triton is not installed" in ended.stderr


def test_an_accuracy_is_measured_to_the_sample_and_leaves_engines_out(tmp_path: Path) -> None:
    """No net is always right: nothing is left to search for, and nothing is written."""
    net = trained_net()
    write_onnx(net, tmp_path / "model.onnx")
    (tmp_path / "model.yaml").write_text(MANIFEST)
    images, labels = digits()
    right = int((np.argmax(net.scores(images), axis=1) == labels).sum())
    words = (
        *("tune", "model.onnx", "--p99", "500ms", "--engines", "OnnxRuntime", "--output", "out"),
        *("--dataset", "builtin://digits", "--least-accuracy", "Top1=1"),
    )
    ended = ran(tmp_path, *words)
    assert ended.code == 1
    assert f"OnnxRuntime:Default: Top1 {100 * right / len(labels):.2f} %" in ended.stderr
    assert f"{right:,} of {len(labels):,}), and --least-accuracy wants at least 1" in ended.stderr
    assert "No engine keeps --least-accuracy" in ended.stderr
    assert not (tmp_path / "out").exists()
