"""What each command prints, and how it refuses."""

import json
import os
import re
from pathlib import Path

import pytest
from onnx import ModelProto

from inferometer_api.results.result import ResultDocument
from inferometer_results.export import FORMATS
from support.command import Command
from support.digits import MANIFEST
from support.inferometer_process import run_file
from support.onnx_models import identity, save, unsupported_operator, zip_map
from support.results import a_result, an_unfinished_result


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "x.yaml", "--progress", "loud"), "'loud' is not one of 'auto', 'plain', 'json'."),
        (("noise", "--seconds", "x"), "'--seconds': Input should be a valid integer\n"),
    ],
)
def test_a_wrong_option_is_named_in_plain_words(
    inferometer: Command, words: tuple[str, ...], sentence: str
) -> None:
    """No text of the library that parses options reaches the user."""
    completed = inferometer(*words)
    assert completed.code == 2
    assert sentence in completed.stderr
    assert "Value error" not in completed.stderr


def test_serve_takes_the_path_of_a_model(inferometer: Command) -> None:
    """As `run` does: no scheme is needed."""
    completed = inferometer("serve", "nowhere.onnx", "--http-port", "0", "--grpc-port", "0")
    assert completed.code == 2
    assert "Model file not found: " in completed.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--threads", "0"), "'--threads': '0' is no whole number from 1 to 1024."),
        (("--model-name", ""), "'--model-name': '' is no name"),
        (("--warm-up-shape", "3"), "'--warm-up-shape': '3' is no shape of an input"),
        (("--max-delay-microseconds", "9"), "never joined without --max-batch-size"),
    ],
)
def test_serve_refuses_wrong_options(
    inferometer: Command, words: tuple[str, ...], sentence: str
) -> None:
    """A value out of bounds ends `serve` with 2, the option's name and what is expected."""
    completed = inferometer("serve", "file:nowhere.onnx", *words)
    assert completed.code == 2
    assert sentence in " ".join(completed.stderr.split())


@pytest.mark.parametrize("command", ["status", "result", "cancel", "report"])
def test_a_missing_cluster_is_reported(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """Commands for a cluster exit with 2 if none is configured, and say how to configure one."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    completed = inferometer(command, "resnet50-cpu")
    assert completed.code == 2
    assert "No cluster is configured: " in completed.stderr
    assert "Give --kubeconfig FILE, or set KUBECONFIG" in completed.stderr


def test_an_impersonating_kubeconfig_is_refused(inferometer: Command, tmp_path: Path) -> None:
    """A request that kubectl would send for another user is not sent."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: admin, user: {token: t, as: bob}}]\n"
        "contexts: [{name: x, context: {cluster: c, user: admin}}]\n"
        "current-context: x\n"
    )
    completed = inferometer("status", "x", "--kubeconfig", str(kubeconfig))
    assert completed.code == 2
    assert "user admin impersonates bob" in completed.stderr


@pytest.mark.parametrize("text", ["", "[]", "a: [", "clusters: 1", "contexts: []"])
def test_a_damaged_kubeconfig_is_refused(inferometer: Command, tmp_path: Path, text: str) -> None:
    """An unusable kubeconfig exits with 2 and a sentence."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    completed = inferometer("status", "x", "--kubeconfig", str(kubeconfig))
    assert (completed.code, "No cluster is configured" in completed.stderr) == (2, True), (
        completed.stderr
    )


def test_the_version_is_printed(inferometer: Command) -> None:
    """--version prints name and version."""
    assert inferometer("--version").stdout.startswith("inferometer 0.")


def test_every_model_is_listed(inferometer: Command) -> None:
    """`models` has a line for each of the 70, and --task filters them."""
    assert len(inferometer("models").stdout.splitlines()) == 1 + 70
    resnet = next(
        line.split()
        for line in inferometer("models").stdout.splitlines()
        if line.startswith("classification/resnet50 ")
    )
    # 4.09 GMACs in convolutions and the last layer; four bytes for each weight.
    assert resnet[1:7] == ["25.6", "M", "4.09", "G", "97.8", "MiB"]
    picked = inferometer("models", "--task", "audio").stdout.splitlines()[1:]
    assert [line.split()[0] for line in picked] == ["audio/wav2vec2_base"]
    unknown = inferometer("models", "--task", "speech")
    assert unknown.code == 2
    assert "There is no task speech. The tasks are audio, classification, " in unknown.stderr


def test_every_example_is_listed_with_what_it_shows(inferometer: Command) -> None:
    """`examples` has a line for each file, which ends with its first comment."""
    folder = Path(__file__).parents[3] / "examples"
    lines = inferometer("examples").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(
        path.stem for path in folder.glob("*.yaml")
    )
    assert all(line.endswith("?") for line in lines)


def test_an_example_is_printed_as_it_is(inferometer: Command) -> None:
    """`examples NAME` prints the file, byte for byte."""
    path = Path(__file__).parents[3] / "examples" / "01-resnet50-cpu.yaml"
    assert inferometer("examples", path.stem).stdout == path.read_text()
    assert inferometer("examples", path.name).stdout == path.read_text()
    unknown = inferometer("examples", "resnet")
    assert unknown.code == 2
    assert 'No example is called "resnet". Choose: 01-resnet50-cpu, ' in unknown.stderr


def test_an_example_is_written_with_its_files(inferometer: Command, tmp_path: Path) -> None:
    """`examples NAME --output DIR` writes all files, and overwrites none."""
    completed = inferometer("examples", "04-own-model", "--output", str(tmp_path / "new"))
    assert sorted(completed.stdout.splitlines()) == sorted(
        str(path) for path in (tmp_path / "new").rglob("*") if path.is_file()
    )
    assert (tmp_path / "new" / "04-own-model" / "inputs.npz").is_file()
    assert inferometer("examples", "04-own-model", "-o", str(tmp_path / "new")).code == 0
    (tmp_path / "new" / "04-own-model.yaml").write_text("mine")
    again = inferometer("examples", "04-own-model", "-o", str(tmp_path / "new"))
    assert again.code == 2
    assert "exists with other content" in again.stderr
    assert (tmp_path / "new" / "04-own-model.yaml").read_text() == "mine"


def test_a_valid_file_is_accepted(inferometer: Command, tmp_path: Path) -> None:
    """`validate` exits with 0, names the scenarios, and says how long they take."""
    save(identity(), tmp_path / "model.onnx")
    path = run_file(tmp_path, {"singleStream": {}}, {"batch": {"batchSizes": [2]}})
    settings = {
        "validity.minDurationSeconds": 20,
        "validity.warmUpSeconds": 5,
        "validity.maxDurationSeconds": 30,
        "validity.repeats": 2,
        "telemetry.idleSeconds": 1,
        "activeDeadlineSeconds": 100,
    }
    sets = [word for name, value in settings.items() for word in ("--set", f"spec.{name}={value}")]
    completed = inferometer("validate", str(path), *sets)
    after = "with warm-up, 2 repeats and 1 restart of the server, after the server's start"
    assert completed.stdout.splitlines() == [
        f"{path} is a valid BenchmarkRun: test, scenarios s0 (singleStream), s1 (batch)",
        f"planned duration: 1 min 42 s to 2 min 22 s {after}",
        "  4 s more if energy can be measured: the idle power",
        "  s0  2 times 25 s to 35 s",
        "  s1  2 times 25 s to 35 s",
        "spec.activeDeadlineSeconds ends the run after 1 min 40 s",
    ]
    assert completed.code == 0


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        (("validate",), "{} is a valid BenchmarkRun: test"),
        (("run", "--print-yaml"), "apiVersion: inferometer.dev/v1alpha1"),
    ],
)
def test_a_pipe_is_read_like_a_file(
    inferometer: Command, tmp_path: Path, words: tuple[str, ...], begin: str
) -> None:
    """`validate <(...)` reads it once, though it may be a run, a suite or a NodeBenchmark."""
    save(identity(), tmp_path / "model.onnx")
    text = run_file(tmp_path, {"singleStream": {}}).read_bytes()
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    setting = f"spec.model.uri=file:{tmp_path / 'model.onnx'}"
    completed = inferometer(*words, f"/dev/fd/{reading}", "--set", setting)
    os.close(reading)
    assert completed.stdout.startswith(begin.format(f"/dev/fd/{reading}")), completed.stderr
    assert completed.code == 0


def test_warnings_are_printed(inferometer: Command, tmp_path: Path) -> None:
    """`validate` accepts a run with idle workers, with a warning."""
    save(identity(), tmp_path / "model.onnx")
    path = run_file(tmp_path, {"singleStream": {}}, spec={"load": {"workers": 2}})
    completed = inferometer("validate", str(path))
    assert completed.code == 0
    assert completed.stderr.startswith(
        "note: spec.scenarios[0].singleStream has 1 client, fewer than"
    )


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("spec.model.uri=zoo://text/minilm", "The nearest names are text/minilm_l6"),
        ("spec.model.uri=file:nowhere.onnx", "Model file not found: "),
        ("spec.model.sha256=" + 64 * "a", "should have the sha256 aaaa"),
        ("spec.load.inputs={file: {uri: 'file:nowhere.npz'}}", "Inputs file not found: "),
        ("spec.load.inputs={random: {shapes: {nope: [1, 2]}}}", "names the input 'nope'"),
    ],
)
def test_named_files_are_checked(
    inferometer: Command, tmp_path: Path, setting: str, sentence: str
) -> None:
    """`validate` refuses a model or inputs that are missing or do not fit."""
    save(identity(), tmp_path / "model.onnx")
    path = run_file(tmp_path, {"singleStream": {}})
    completed = inferometer("validate", str(path), "--set", setting)
    assert completed.code == 2
    assert sentence in completed.stderr


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("labels: labels.txt", "labels: none.txt", "none.txt is no file"),
        ("path: labels.txt", "path: ../labels.txt", "leaves the folder"),
        ("normalize:", "normalise:", "did you mean normalize?"),
    ],
)
def test_the_manifest_and_its_files_are_checked(
    inferometer: Command, tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    """`validate` reads the files that the steps name, before a server starts for nothing."""
    save(identity(), tmp_path / "model.onnx")
    text = MANIFEST.replace(old, new)
    if "../" in new:
        text = re.sub(r", text: [^}]*", "", text)
    (tmp_path / "model.yaml").write_text(text)
    completed = inferometer("validate", str(run_file(tmp_path, {"singleStream": {}})))
    assert completed.code == 2
    assert sentence in completed.stderr


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (unsupported_operator(), "uses the operator com.example:Frobnicate"),
        (zip_map(), "It comes from a ZipMap"),
    ],
    ids=["operator", "zipmap"],
)
def test_the_model_is_opened(
    inferometer: Command, tmp_path: Path, model: ModelProto, sentence: str
) -> None:
    """`validate` refuses a model that its server cannot open, as `run` does."""
    save(model, tmp_path / "model.onnx")
    completed = inferometer("validate", str(run_file(tmp_path, {"singleStream": {}})))
    assert completed.code == 2
    assert sentence in completed.stderr
    assert completed.stdout == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--set", "spec.load.protocl=GRPC"), "did you mean protocol? It was set on the command"),
        (("--set", "spec.load.connections=0"), "spec.load.connections: "),
        (("--set", "spec.scenarios[x].server.targetQps=2"), "no item named x"),
        (("--set", "nonsense"), '--set expects PATH=VALUE, but "nonsense" has no "="'),
        (
            ("--set", "spec.server.replicas=2"),
            "\n  spec.server.replicas: a local run has one server, not 2",
        ),
        (("--set", "spec.server.runtime=KServe"), "KServe runs in clusters only; available here: "),
        (
            ("--set", "spec.model.uri=pvc://claim/model.onnx"),
            "pvc:// needs a cluster; available here: zoo://",
        ),
        (("--set", "spec.suspend=true"), "a local run cannot be suspended"),
    ],
)
@pytest.mark.parametrize("command", ["validate", "run"])
def test_what_cannot_be_run_is_refused(
    inferometer: Command, tmp_path: Path, command: str, words: tuple[str, ...], sentence: str
) -> None:
    """`run` and `validate` refuse the same files with 2 and a sentence, before anything starts."""
    completed = inferometer(command, str(run_file(tmp_path, {"singleStream": {}})), *words)
    assert completed.code == 2
    assert completed.stderr.startswith("inferometer: ")
    assert sentence in completed.stderr
    assert completed.stdout == ""


@pytest.mark.parametrize("words", [("validate",), ("ab", "run.yaml"), ("preflight", "-f")])
def test_a_model_in_place_of_a_run_file_is_recognized(
    inferometer: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Only `run` takes a model; the others say how to write a run file for it."""
    save(identity(), tmp_path / "model.onnx")
    run_file(tmp_path, {"singleStream": {}})
    command, *files = (str(tmp_path / word) if word == "run.yaml" else word for word in words)
    completed = inferometer(command, *files, str(tmp_path / "model.onnx"))
    assert completed.code == 2
    assert "model.onnx is a model, not a run file. Write a run file for it: " in completed.stderr
    assert "model.onnx --print-yaml > run.yaml" in completed.stderr
    save(identity(), tmp_path / "UPPER.ONNX")
    completed = inferometer(command, *files, str(tmp_path / "UPPER.ONNX"))
    assert "UPPER.ONNX is a model, not a run file." in completed.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("measure",),
        ("run",),
        ("run", "nowhere.yaml"),
        ("run", "nowhere.yaml", "--jsn"),
        ("validate", "/"),
        ("report", "nowhere.json"),
        ("serve",),
        ("serve", "nowhere"),
        ("serve", "file:nowhere.onnx"),
        ("serve", "file:nowhere.onnx", "--threads", "0"),
    ],
)
def test_malformed_input_is_refused(inferometer: Command, words: tuple[str, ...]) -> None:
    """A malformed command line or file exits with 2 and a message on standard error."""
    completed = inferometer(*words)
    assert completed.code == 2
    assert "Traceback" not in completed.stderr


def test_an_unwritable_directory_is_refused(inferometer: Command, tmp_path: Path) -> None:
    """--output that is a file, below a file or not writable exits with 2 before anything starts."""
    path = str(run_file(tmp_path, {"singleStream": {}}))
    for output, found in (
        (path, "is a file"),
        (f"{path}/deeper", "is a file"),
        ("/proc/results", "No such file or directory"),
    ):
        completed = inferometer("run", path, "--output", output)
        assert completed.code == 2, completed.stderr
        assert completed.stderr.startswith(f"inferometer: Cannot write the result to {output}: ")
        assert found in completed.stderr


def test_a_saved_result_is_shown_again(inferometer: Command, tmp_path: Path) -> None:
    """`report` prints the table and writes the page next to the result, or to --output."""
    result = _write_result(tmp_path, a_result())
    completed = inferometer("report", str(result))
    assert completed.code == 0
    assert "throughput" in completed.stdout
    assert completed.stderr.strip() == f"report  {tmp_path / 'report.html'}"
    elsewhere = tmp_path / "new" / "elsewhere"
    assert inferometer("report", str(result), "--output", str(elsewhere)).code == 0
    assert (elsewhere / "report.html").read_text() == (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", FORMATS)
def test_a_result_is_exported(inferometer: Command, tmp_path: Path, name: str) -> None:
    """`report --format` prints nothing but the export, or writes it to --output."""
    document = a_result()
    result = _write_result(tmp_path, document)
    completed = inferometer("report", str(result), "--format", name)
    assert (completed.code, completed.stderr) == (0, "")
    assert completed.stdout == FORMATS[name](document)
    assert not (tmp_path / "report.html").exists()
    written = tmp_path / "exported"
    assert inferometer("report", str(result), "-f", name, "-o", str(written)).stdout == ""
    assert written.read_text(encoding="utf-8") == completed.stdout


def test_an_export_does_not_overwrite_its_result(inferometer: Command, tmp_path: Path) -> None:
    """`report --format` refuses the result itself and a directory as --output."""
    result = _write_result(tmp_path, a_result())
    before = result.read_bytes()
    for output, message in ((result, "is the result itself"), (tmp_path, "is a directory")):
        completed = inferometer("report", str(result), "--format", "json", "-o", str(output))
        assert completed.code == 2
        assert message in completed.stderr
    assert result.read_bytes() == before


def test_a_report_does_not_overwrite_a_file(inferometer: Command, tmp_path: Path) -> None:
    """`report --output` to a file exits with 2, and the file remains unchanged."""
    result = _write_result(tmp_path, an_unfinished_result())
    before = result.read_bytes()
    completed = inferometer("report", str(result), "--output", str(result))
    assert completed.code == 2
    assert "Choose another directory with --output" in completed.stderr
    assert completed.stdout == ""
    assert result.read_bytes() == before


def test_a_result_with_a_newer_major_version_is_refused(
    inferometer: Command, tmp_path: Path
) -> None:
    """`report` names both versions and the program that wrote the result."""
    path = _write_result(tmp_path, a_result())
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schemaVersion": "2.0", "inferometerVersion": "9.9"}))
    completed = inferometer("report", str(path))
    assert completed.code == 2
    assert "has schema version 2.0, and this program reads version 1.1" in completed.stderr
    assert "Use Inferometer 9.9, which wrote it." in completed.stderr


def test_a_result_with_a_newer_minor_version_is_read_with_a_notice(
    inferometer: Command, tmp_path: Path
) -> None:
    """`report` ignores fields that it does not know, and prints a notice to standard error."""
    path = _write_result(tmp_path, a_result())
    document = json.loads(path.read_text())
    document["run"]["spec"]["scenarios"][0]["telepathy"] = {}
    document["scenarios"][0]["steps"][0]["tokensPerSecond"] = 1
    path.write_text(json.dumps(document | {"schemaVersion": "1.9", "news": [1]}))
    completed = inferometer("report", str(path))
    assert completed.code == 0
    assert "has schema version 1.9, written by Inferometer" in completed.stderr


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '{"schemaVersion": 99}'])
def test_other_files_are_refused(inferometer: Command, tmp_path: Path, text: str) -> None:
    """`report` of another file exits with 2 and says what it needs."""
    path = tmp_path / "result.json"
    path.write_text(text)
    completed = inferometer("report", str(path))
    assert completed.code == 2
    assert "Give a result.json that `inferometer run` wrote" in completed.stderr
    assert not (tmp_path / "report.html").exists()


def _write_result(folder: Path, document: ResultDocument) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(document.model_dump(mode="json", exclude_none=True)))
    return path


@pytest.mark.parametrize("command", ["run", "validate", "serve"])
def test_a_missing_runtime_is_reported(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """Without [cpu] or [gpu], commands that start a server say which extra to install."""
    monkeypatch.setattr("inferometer_cli.program.find_spec", lambda _: None)
    path = run_file(tmp_path, {"singleStream": {}})
    completed = inferometer(command, "file:model.onnx" if command == "serve" else str(path))
    assert completed.code == 2
    assert "Install inferometer[cpu], or inferometer[gpu]" in completed.stderr
    external = (
        "server.runtime=External",
        "server.external.url=http://127.0.0.1:8000",
        "model={name: x}",
    )
    sets = [word for each in external for word in ("--set", f"spec.{each}")]
    assert inferometer("validate", str(path), *sets).code == 0


def test_a_rule_is_explained_offline(inferometer: Command) -> None:
    """`explain` prints limit, advice and definition, in any case; without a rule it lists all."""
    listed = inferometer("explain").stdout.splitlines()
    assert listed[0].split() == ["BusyMachine", "INVALID"]
    shown = inferometer("explain", "busymachine").stdout
    assert shown.startswith("BusyMachine: INVALID\nLimit: if the load generator is late")
    assert "\n1. Stop them: builds, tests, browsers" in shown
    assert "\N{BULLET} Why: Server and load generator wait while others run" in shown
    misspelt = inferometer("explain", "BusyMachin")
    assert misspelt.code == 2
    assert "There is no rule BusyMachin. Did you mean BusyMachine?" in misspelt.stderr
