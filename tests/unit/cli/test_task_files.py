"""`validate` checks the local data sets and manifests that a run names."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command import Command
from support.digits import MANIFEST
from support.inferometer_process import run_file
from support.onnx_models import identity, save
from support.suites import a_suite

_PYTHON = f"""\
{MANIFEST[: MANIFEST.index("inputs:")]}
inputs: [{{name: image}}]
outputs: [{{name: scores}}]
postprocess: |
  raise SystemExit("it was run")
"""
_ACCURACY = {"dataset": {"uri": "file:set.csv"}, "metrics": ["Top1"]}


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    save(identity(), tmp_path / "model.onnx")
    (tmp_path / "set.csv").write_text("input,label\n1 2 3 4,0\n")
    (tmp_path / "folder").mkdir()


def _with_dataset(folder: Path, dataset: dict[str, Any]) -> Path:
    """Write a manifest that names a data set, below `folder`; return it."""
    path = folder / "manifests" / "model.yaml"
    path.parent.mkdir()
    fields = ", ".join(f'{name}: "{each}"' for name, each in dataset.items())
    path.write_text(f"{MANIFEST}\ndataset: {{{fields}}}\n")
    return path


@pytest.mark.parametrize("kind", ["accuracy", "sampledAccuracy"])
@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ({"uri": "file:none.csv"}, "Data set file not found: "),
        ({"uri": "file:set.csv", "sha256": "0" * 64}, "should have the sha256 0000"),
        ({"uri": "file:folder"}, "folder is a folder without dataset.yaml: add that file"),
        ({"uri": "file:folder", "sha256": "0" * 64}, "has a checksum, which only a file can have"),
    ],
)
def test_the_data_set_of_a_scenario_is_checked(
    inferometer: Command, tmp_path: Path, kind: str, dataset: dict[str, Any], sentence: str
) -> None:
    """A data set that is missing, another one, or no data set is refused before a server starts."""
    accuracy = _ACCURACY | {"dataset": dataset}
    scenario = {"name": "one", kind: accuracy}
    if kind == "sampledAccuracy":
        scenario["singleStream"] = {}
    ended = inferometer("validate", str(run_file(tmp_path, scenario)))
    assert ended.code == 2
    assert sentence in ended.stderr


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ({"uri": "file:set.csv"}, "Data set file not found: "),
        ({"uri": "file:../set.csv", "sha256": "0" * 64}, "should have the sha256 0000"),
        ({"uri": "file:../folder"}, "is a folder without dataset.yaml"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "manifest"])
def test_the_data_set_of_a_manifest_is_checked(
    inferometer: Command, tmp_path: Path, command: str, dataset: dict[str, Any], sentence: str
) -> None:
    """Its path starts in the manifest's folder, not in that of the run file."""
    manifest = _with_dataset(tmp_path, dataset)
    words: tuple[str, ...] = ("manifest", "check", str(manifest))
    if command == "validate":
        model = {"uri": "file:model.onnx", "manifest": {"uri": "file:manifests/model.yaml"}}
        file = run_file(tmp_path, {"singleStream": {}}, spec={"model": model})
        words = ("validate", str(file))
    ended = inferometer(*words)
    assert ended.code == 2
    assert sentence in ended.stderr


def test_the_right_data_set_of_a_manifest_is_accepted(inferometer: Command, tmp_path: Path) -> None:
    """By its checksum, too."""
    checksum = sha256((tmp_path / "set.csv").read_bytes()).hexdigest()
    manifest = _with_dataset(tmp_path, {"uri": "file:../set.csv", "sha256": checksum})
    ended = inferometer("manifest", "check", str(manifest))
    assert ended.code == 0, ended.stderr


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize(
    ("what", "spec"),
    [
        ("Manifest", {"model": {"uri": "file:model.onnx", "manifest": {"uri": "file:folder"}}}),
        ("Inputs", {"load": {"inputs": {"file": {"uri": "file:folder"}}}}),
    ],
)
def test_a_folder_in_place_of_a_file_is_named_as_such(
    inferometer: Command, tmp_path: Path, command: str, what: str, spec: dict[str, Any]
) -> None:
    """It is there: "not found" would be wrong."""
    ended = inferometer(command, str(run_file(tmp_path, {"singleStream": {}}, spec=spec)))
    assert ended.code == 2
    sentence = f"{what} {tmp_path}/folder is a folder, but must be a file: name the file in that"
    assert sentence in ended.stderr


@pytest.mark.parametrize("kind", ["accuracy", "sampledAccuracy"])
@pytest.mark.parametrize("has_manifest", [False, True])
@pytest.mark.parametrize(
    ("accuracy", "sentence"),
    [
        (
            {"metrics": ["Top1", "MAP"]},
            "Scenario one: MAP needs the output's steps to end with boxes, but they end with topK",
        ),
        (
            {"dataset": {"uri": "builtin://cats"}},
            "Scenario one: There is no built-in data set builtin://cats: there is builtin://digits",
        ),
    ],
)
def test_what_an_evaluation_cannot_do_is_refused_before_a_server_starts(
    inferometer: Command,
    tmp_path: Path,
    kind: str,
    has_manifest: bool,  # noqa: FBT001 - one of the cases
    accuracy: dict[str, Any],
    sentence: str,
) -> None:
    """By validate and run alike: a server of this model would not start with this option."""
    scenario = {"name": "one", kind: _ACCURACY | accuracy}
    if kind == "sampledAccuracy":
        scenario["singleStream"] = {}
    if has_manifest:
        (tmp_path / "model.yaml").write_text(MANIFEST)
    file = run_file(tmp_path, scenario, spec={"model": {"uri": "file:model.onnx"}})
    (tmp_path / "model.onnx").write_bytes(b"no model")
    for command in ("validate", "run"):
        ended = inferometer(command, str(file))
        assert ended.code == 2
        assert sentence in ended.stderr


@pytest.mark.parametrize("pipeline", ["Client", "Server"])
@pytest.mark.parametrize("command", ["validate", "run"])
def test_python_steps_are_refused_before_a_server_starts(
    inferometer: Command, tmp_path: Path, command: str, pipeline: str
) -> None:
    """By validate and run alike: a server of this model would not start with this option."""
    (tmp_path / "model.yaml").write_text(_PYTHON)
    spec = {"model": {"uri": "file:model.onnx", "pipeline": pipeline}}
    file = str(run_file(tmp_path, {"accuracy": _ACCURACY}, spec=spec))
    (tmp_path / "model.onnx").write_bytes(b"no model")
    ended = inferometer(command, file)
    assert ended.code == 2
    assert "has Python steps, which run only in local runs with --allow-python" in ended.stderr
    allowed = inferometer(command, file, "--allow-python-steps")
    assert allowed.code == 2
    assert "--allow-python-steps" not in allowed.stderr
    assert "model.onnx" in allowed.stderr


def test_a_suite_takes_no_python_steps(inferometer: Command, tmp_path: Path) -> None:
    """As run refuses the option with a suite."""
    save(identity(), tmp_path / "plain.onnx")
    suite = str(tmp_path / "suite.yaml")
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(a_suite()))
    for command in ("run", "validate"):
        ended = inferometer(command, suite, "--allow-python-steps")
        assert ended.code == 2
        assert "is a suite, which --allow-python-steps does not go with" in ended.stderr


def test_a_file_of_a_cell_or_variant_is_checked_before_anything_is_measured(
    inferometer: Command, tmp_path: Path
) -> None:
    """Suites and series refuse what a single run refuses, name the cell, and leave nothing."""
    (tmp_path / "model.yaml").write_text(MANIFEST.replace(">=1.20 <2", "^99"))
    template = {
        "spec": {
            "model": {"uri": "file:model.onnx"},
            "scenarios": [{"name": "latency", "singleStream": {}}],
        }
    }
    suite = tmp_path / "suite.yaml"
    suite.write_text(yaml.safe_dump(a_suite(template=template)))
    run = str(run_file(tmp_path, {"singleStream": {}}, spec=template["spec"]))
    out = tmp_path / "out"
    for words, where in (
        (["run", str(suite)], "cell old: "),
        (["ab", run, run, "--set-b", "spec.server.threads=2"], "A: "),
    ):
        ended = inferometer(*words, "--output", str(out))
        assert ended.code == 2
        assert f"{where}{tmp_path}/model.yaml: " in ended.stderr
        assert "needs onnxruntime ^99" in ended.stderr
        assert "planned duration" not in ended.stderr
        assert not out.exists()


def test_check_names_each_engine_that_satisfies_a_manifest(
    inferometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several engines one is enough; if none is, the refusal names them all."""
    monkeypatch.setattr(
        "inferometer_cli.local.engines.installed_engines", lambda: {"onnxruntime": "1.31.0"}
    )
    path = tmp_path / "model.yaml"
    one, other = '{name: onnxruntime, version: ">=1.20 <2"}', "{name: openvino}"
    assert one in MANIFEST
    path.write_text(MANIFEST.replace(one, f"[{other}, {one}]"))
    ended = inferometer("manifest", "check", str(path))
    assert ended.code == 0, ended.stderr
    assert ended.stdout.count("is satisfied by") == 1
    assert "onnxruntime >=1.20 <2 is satisfied by 1.31.0 here" in ended.stdout
    path.write_text(MANIFEST.replace(one, f"[{other}, {{name: onnxruntime, version: ^2}}]"))
    ended = inferometer("manifest", "check", str(path))
    assert ended.code == 2
    assert "needs openvino * or onnxruntime ^2, and nothing here" in ended.stderr


def _program(folder: Path, name: str) -> Path:
    """Write a program that does nothing, in a virtual environment; return the environment."""
    program = folder / "environment" / "bin" / name
    program.parent.mkdir(parents=True)
    python = program.with_name("python")
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    program.write_text(f"#!{python}\n")
    program.chmod(0o755)
    return program.parents[1]


@pytest.mark.parametrize(
    ("version", "code", "words"),
    [
        ("1.22.1", 1, "The server died before it was ready"),
        ("2.0.1", 2, "nothing here satisfies that: the nearest is onnxruntime 2.0.1"),
    ],
)
def test_the_engine_in_the_environment_of_a_server_is_compared_before_it_starts(
    inferometer: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    code: int,
    words: str,
) -> None:
    """MLServer's ONNX Runtime is that of its environment; `validate` starts one that will do."""
    environment = _program(tmp_path, "mlserver")
    metadata = environment / f"lib/python3.11/site-packages/onnxruntime-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Name: onnxruntime\nVersion: {version}\n")
    monkeypatch.setenv("PATH", str(environment / "bin"))
    (tmp_path / "model.yaml").write_text(MANIFEST)
    spec = {"model": {"uri": "file:model.onnx"}, "server": {"runtime": "MLServer"}}
    ended = inferometer("validate", str(run_file(tmp_path, {"singleStream": {}}, spec=spec)))
    assert ended.code == code
    assert words in ended.stderr


def test_an_engine_that_a_server_never_has_is_refused_before_it_starts(
    inferometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which version Triton has is not known, but its back end is."""
    monkeypatch.setenv("PATH", str(_program(tmp_path, "tritonserver") / "bin"))
    (tmp_path / "model.yaml").write_text(MANIFEST)
    server = {"runtime": "Triton", "tritonBackend": "OpenVino"}
    spec = {"model": {"uri": "file:model.onnx"}, "server": server}
    file = str(run_file(tmp_path, {"singleStream": {}}, spec=spec))
    refused = inferometer("validate", file)
    assert refused.code == 2
    assert "needs onnxruntime >=1.20 <2, which is not among the engines" in refused.stderr
    taken = inferometer("validate", file, "--set", "spec.server.tritonBackend=Python")
    assert taken.code == 1
    assert "The server died before it was ready" in taken.stderr


def test_tune_leaves_out_an_engine_that_the_manifest_excludes(
    inferometer: Command, tmp_path: Path
) -> None:
    """Also the first one, whose outputs would be the reference; with none left it is refused."""
    one = '{name: onnxruntime, version: ">=1.20 <2"}'
    (tmp_path / "model.yaml").write_text(MANIFEST.replace(one, "{name: onnxruntime, version: ^0}"))
    words = ("--p99", "50ms", "--engines", "OnnxRuntime")
    ended = inferometer("tune", str(tmp_path / "model.onnx"), *words)
    assert ended.code == 2
    assert "OnnxRuntime:Default is left out: " in ended.stderr
    assert "needs onnxruntime ^0, and nothing here satisfies that" in ended.stderr


@pytest.mark.parametrize("command", ["overhead", "bound", "advise"])
def test_every_command_resolves_the_manifest_of_its_model(
    inferometer: Command, tmp_path: Path, command: str
) -> None:
    """Before anything is measured."""
    (tmp_path / "model.yaml").write_text(MANIFEST.replace(">=1.20 <2", "^0"))
    ended = inferometer(command, str(tmp_path / "model.onnx"))
    assert ended.code == 2
    assert "needs onnxruntime ^0, and nothing here satisfies that" in ended.stderr
    assert str(tmp_path / "model.yaml") in ended.stderr
