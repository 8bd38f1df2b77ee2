"""A stored result stands for a cell of a suite with `reuse: true`."""

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.local.suite.reuse import reusable_result, reuse_obstacle
from inferometer_cli.program import program_version
from inferometer_results.store.database import default_address
from inferometer_results.store.store import Store
from support.digits import MANIFEST
from support.onnx_models import write_with_external_data
from support.runs import a_run, an_external_run
from support.stored_results import LOCAL, ORIGIN


def a_file_run(**spec: Any) -> BenchmarkRun:
    """Return a run of a model file."""
    return BenchmarkRun.model_validate(a_run(model={"uri": "file:model.onnx"}, **spec))


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a folder with a model file, on a machine with a database of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "model.onnx").write_bytes(b"weights")
    return tmp_path


def keep(
    run: BenchmarkRun,
    *,
    verdict: str = "VALID",
    manifest: dict[str, str] | None = None,
    **changed: str,
) -> None:
    """Store a result of a run on this machine."""
    document = json.loads(json.dumps(LOCAL))
    document["run"] = json.loads(run.model_dump_json(exclude_none=True))
    document["inferometerVersion"] = changed.get("version", program_version())
    document["environment"]["node"]["hostname"] = changed.get("node", platform.node())
    document["environment"]["server"]["replicas"] = []
    weights = changed.get("weights", "weights").encode()
    sha256 = changed.get("sha256") or hashlib.sha256(weights).hexdigest()
    document["environment"]["model"]["sha256"] = sha256
    document["environment"]["model"]["manifest"] = manifest
    for scenario in document["scenarios"]:
        scenario["verdict"] = {"state": verdict, "reasons": [], "cautions": []}
    address = default_address()
    with Store(address) as store:
        store.add(json.dumps(document).encode(), ORIGIN, source="x")


def test_the_same_measurement_is_reused(base: Path) -> None:
    """Equal spec, model file, version and machine; the labels of the suite may differ."""
    run = a_file_run()
    keep(run)
    found = reusable_result(run, base, ())
    assert found is not None
    assert found.document.run.spec == run.spec


def test_the_same_measurement_is_found_behind_any_number_of_newer_results(base: Path) -> None:
    """Results of other specs are not looked at, however many there are."""
    keep(a_file_run())
    document = json.loads(json.dumps(LOCAL))
    document["environment"]["node"]["hostname"] = platform.node()
    document["scenarios"] = document["scenarios"][:1]
    document["scenarios"][0]["verdict"] = {"state": "VALID", "reasons": [], "cautions": []}
    with Store(default_address()) as store:
        for number in range(501):
            fields = {"runId": f"newer-{number}", "startedAt": "2030-01-01T00:00:00.000Z"}
            store.add(json.dumps(document | fields).encode(), ORIGIN, source="x")
    assert reusable_result(a_file_run(), base, ()) is not None


def test_a_result_stands_for_one_run_of_a_suite(base: Path) -> None:
    """Repeats that share a result would look as if nothing ever varied."""
    run = a_file_run()
    keep(run)
    found = reusable_result(run, base, ())
    assert found is not None
    assert reusable_result(run, base, {found.document.run_id}) is None


def test_inputs_that_may_have_changed_are_measured_again(base: Path) -> None:
    """A file without a checksum is another one tomorrow."""

    def is_reused(**file: str) -> bool:
        inputs = {"inputs": {"file": {"uri": "file:inputs.npz", **file}}}
        run = a_file_run(load=inputs)
        keep(run)
        return reusable_result(run, base, ()) is not None

    assert not is_reused()
    assert is_reused(sha256="0" * 64)


@pytest.mark.parametrize(
    "changed",
    [{"verdict": "INVALID"}, {"version": "0.0.9"}, {"node": "another"}, {"weights": "others"}],
    ids=lambda changed: next(iter(changed)),
)
def test_another_measurement_is_not_reused(base: Path, changed: dict[str, Any]) -> None:
    """Whatever differs."""
    run = a_file_run()
    keep(run, **changed)
    assert reusable_result(run, base, ()) is None


def test_a_manifest_next_to_the_model_is_compared(base: Path) -> None:
    """The spec does not name it: its steps may be others today."""
    run, beside = a_file_run(), base / "model.yaml"
    known = {"name": "m", "version": "1.0.0", "license": "MIT", "framework": "onnxruntime"}
    known["frameworkConstraint"] = ">=1.20 <2"

    def is_reused(text: str) -> bool:
        beside.write_text(text)
        return reusable_result(run, base, ()) is not None

    keep(run, manifest={**known, "sha256": hashlib.sha256(MANIFEST.encode()).hexdigest()})
    assert is_reused(MANIFEST)
    assert not is_reused(MANIFEST.replace("divideBy: 16", "divideBy: 15"))
    assert not is_reused(MANIFEST.replace("divideBy: 16", "divideBy: none"))
    beside.unlink()
    assert reusable_result(run, base, ()) is None


def test_another_spec_is_not_reused(base: Path) -> None:
    """Also one that differs in a field with a default."""
    keep(a_file_run())
    assert reusable_result(a_file_run(load={"connections": 7}), base, ()) is None


def test_a_model_with_external_data_is_measured_again(base: Path) -> None:
    """The checksum in a result is that of the .onnx file alone; the note says why."""
    model = write_with_external_data(base)
    run = a_file_run()
    keep(run, sha256=hashlib.sha256(model.read_bytes()).hexdigest())
    assert reusable_result(run, base, ()) is None
    assert "the external data of its model has no checksum" in reuse_obstacle(run, base)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (a_run(), ""),
        (a_run(model={"uri": "https://h/m.onnx", "sha256": "0" * 64}), ""),
        (an_external_run(), "an External server may have changed"),
        (
            a_run(
                otherModels=[{"uri": "file:b.onnx"}],
                scenarios=[
                    {
                        "name": "a",
                        "mix": [{"model": "resnet50"}, {"model": "b"}],
                        "mixWeights": "Zipf",
                        "singleStream": {},
                    }
                ],
            ),
            "another of its models may have changed",
        ),
    ],
    ids=["zoo", "checksum", "external", "other"],
)
def test_what_may_have_changed_is_measured_again(
    base: Path, run: dict[str, Any], expected: str
) -> None:
    """The sentence names what may be another one today."""
    assert reuse_obstacle(BenchmarkRun.model_validate(run), base).startswith(expected)
    assert bool(reuse_obstacle(BenchmarkRun.model_validate(run), base)) == bool(expected)
