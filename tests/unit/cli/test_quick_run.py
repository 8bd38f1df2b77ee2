"""A run without a file is the run file that its options mean."""

import io
import sys
from pathlib import Path

import pytest
import yaml

from inferometer_api.plan.spec_warnings import spec_warnings
from inferometer_cli.commands.overhead import overhead
from inferometer_cli.exits import ExitCode, RefusedError
from inferometer_cli.local import rungs
from inferometer_cli.quick_run import (
    QuickOptions,
    compose_run,
    field_hint,
    in_flags,
    is_model,
    model_uri,
)
from inferometer_cli.run_file import parse_run_text
from inferometer_cli.shown_result import Showing, keep_and_show
from support.command import Command
from support.results import a_result

_ZOO = "zoo://classification/resnet50"


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs a command line in this process."""
    return Command(monkeypatch, capsys)


def spec(target: str | None, **options: str | int) -> dict[str, object]:
    """Return the spec that a target and options mean, which must be valid."""
    text = compose_run(target, QuickOptions(**options))  # type: ignore[arg-type]  # by name
    parse_run_text(text, source="The command line")
    found: dict[str, object] = yaml.safe_load(text)["spec"]
    return found


@pytest.mark.parametrize(
    ("options", "scenario"),
    [
        ({}, {"name": "latency", "singleStream": {}}),
        ({"qps": "16.5"}, {"name": "traffic", "server": {"targetQps": "16.5"}}),
        (
            {"qps": "50", "p99": "50ms"},
            {"name": "traffic", "server": {"targetQps": "50", "latencyBoundMicroseconds": 50_000}},
        ),
        (
            {"p99": "0.2s", "seconds": 5},
            {
                "name": "capacity",
                "findPeak": {"latencyBoundMicroseconds": 200_000, "probe": {"maxSeconds": 5}},
            },
        ),
        ({"clients": "1,2,4"}, {"name": "concurrency", "concurrency": {"clients": [1, 2, 4]}}),
    ],
    ids=["nothing", "rate", "rate and bound", "bound", "clients"],
)
def test_the_options_choose_the_scenario(
    options: dict[str, str | int], scenario: dict[str, object]
) -> None:
    """None: one query at a time; a rate: an open loop; a bound alone: a search."""
    assert spec(_ZOO, **options) == {"model": {"uri": _ZOO}, "scenarios": [scenario]}


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("http://127.0.0.1:8000", "HTTP"),
        ("https://h:1", "HTTP"),
        ("grpc://h:1", "GRPC"),
        ("grpcs://h:1", "GRPC"),
    ],
)
def test_a_url_is_an_external_server_and_says_the_protocol(url: str, protocol: str) -> None:
    """The name of the model is the server's."""
    found = spec(None, url=url, model="Bert_Large.v2")
    assert found["model"] == {"name": "Bert_Large.v2"}
    assert found["server"] == {"runtime": "External", "external": {"url": url}}
    assert found["load"] == {"protocol": protocol}


def test_seconds_are_the_duration_of_a_measurement() -> None:
    """The queries that fit into them are enough."""
    assert spec(_ZOO, seconds=5)["validity"] == {"minDurationSeconds": 5, "minQueries": 1}


@pytest.mark.parametrize("seconds", [600, 601, 3_600, 86_400])
@pytest.mark.parametrize("bound", [{}, {"p99": "50ms"}, {"clients": "1,2"}])
def test_all_seconds_that_the_help_names_can_be_measured(
    seconds: int, bound: dict[str, str]
) -> None:
    """The limits of the run are raised, so that none ends it earlier or makes it INVALID."""
    text = compose_run(_ZOO, QuickOptions(seconds=seconds, **bound))
    run = parse_run_text(text, source="The command line")
    assert run.spec.validity.max_duration_seconds >= seconds
    assert run.spec.active_deadline_seconds > run.spec.validity.max_duration_seconds
    assert list(spec_warnings(run.spec)) == []


def test_a_model_file_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path becomes a URI, its name the run's."""
    monkeypatch.chdir(tmp_path)
    text = compose_run("My Modèle v2.onnx", QuickOptions())
    run = parse_run_text(text, source="The command line")
    assert run.name == "my-mod-le-v2"
    assert run.spec.model.uri == f"file:{tmp_path}/My%20Mod%C3%A8le%20v2.onnx"
    assert is_model("UPPER.ONNX")


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (None, {}, "Nothing to run"),
        (None, {"model": "m"}, "Nothing to run"),
        (None, {"url": "http://h:1"}, "--url needs --model"),
        (None, {"url": "http://h:1", "model": ""}, "--url needs --model"),
        (_ZOO, {"url": "http://h:1", "model": "m"}, "Give one of both"),
        (_ZOO, {"clients": "1", "qps": "5"}, "Give one of both"),
        (_ZOO, {"clients": "one"}, '--clients expects numbers such as 1,2,4, but "one"'),
        (_ZOO, {"p99": "50"}, "--p99 expects a time such as 50ms"),
        ("http://h:8000", {}, "write --url http://h:8000 --model NAME"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    target: str | None, options: dict[str, str], words: str
) -> None:
    """With what to give instead."""
    with pytest.raises(RefusedError, match=words):
        compose_run(target, QuickOptions(**options))  # type: ignore[arg-type]  # by name


def test_the_run_that_is_meant_can_be_printed_and_read_again(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """--print-yaml runs nothing; its output is a run file, on standard input as well."""
    monkeypatch.chdir(tmp_path)
    words = ("run", _ZOO, "--qps", "5", "--print-yaml", "--set", "spec.server.threads=2")
    printed = inferometer(*words)
    assert printed.code == ExitCode.VALID
    spec = yaml.safe_load(printed.stdout)["spec"]
    assert spec["server"] == {"threads": 2}
    assert spec["scenarios"][0]["server"] == {"targetQps": 5}
    monkeypatch.setattr(sys, "stdin", io.StringIO(printed.stdout))
    assert inferometer("run", "-", "--print-yaml").stdout == printed.stdout
    assert list(tmp_path.iterdir()) == []


def test_messages_about_standard_input_name_it(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`validate` reads it too; a dash would name nothing."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("[]"))
    assert "Standard input is not a valid BenchmarkRun" in inferometer("validate", "-").stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO(compose_run(_ZOO, QuickOptions(qps="5"))))
    refused = inferometer("run", "-", "--qps", "5")
    assert refused.code == ExitCode.REFUSED
    assert "Standard input is a run file, which --url," in refused.stderr


def test_a_path_of_a_model_may_be_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`file:model.onnx` is the same file as `model.onnx`."""
    monkeypatch.chdir(tmp_path)
    assert model_uri("model.onnx") == f"file:{tmp_path}/model.onnx"
    for address in ("file:model.onnx", "zoo://text/gpt2", "https://h/model.onnx"):
        assert model_uri(address) == address


@pytest.mark.parametrize("model", ["file:model.onnx", "50%25 off.onnx"])
def test_the_ladder_takes_a_model_as_other_commands_do(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path with a percent sign or a blank, and `file:`, mean the same everywhere."""

    def open_in_process(uri: str, *_: object) -> None:
        raise RefusedError(uri)

    monkeypatch.setattr(rungs, "in_process", open_in_process)
    with pytest.raises(RefusedError) as refused:
        overhead(model)
    assert str(refused.value) == model_uri(model)


def test_waiting_for_a_server_sets_its_deadline(inferometer: Command) -> None:
    """--wait is the deadline of the run that is meant, which --set may still change."""
    words = ("run", "--url", "http://h:1", "--model", "m", "--wait", "7", "--print-yaml")
    found = yaml.safe_load(inferometer(*words).stdout)["spec"]["server"]
    assert found["readyDeadlineSeconds"] == 7
    changed = inferometer(*words, "--set", "spec.server.readyDeadlineSeconds=9")
    found = yaml.safe_load(changed.stdout)["spec"]["server"]
    assert found["readyDeadlineSeconds"] == 9


def test_options_beside_a_run_file_are_refused(inferometer: Command, tmp_path: Path) -> None:
    """Its fields are changed with --set."""
    file = tmp_path / "run.yaml"
    file.write_text(compose_run(_ZOO, QuickOptions()))
    refused = inferometer("run", str(file), "--qps", "5")
    assert refused.code == ExitCode.REFUSED
    assert "with --set" in refused.stderr
    assert "--url needs" not in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--qps", "-5"), "\n  --qps: "),
        (("--clients", "1,0"), "\n  --clients: "),
        (("--qps", "5", "--p99", "0us"), "\n  --p99: "),
        (("--url", "ftp://h:1", "--model", "m"), "\n  --url: "),
        (("--url", "http://h:1", "--model", "m", "--qps", "0"), "\n  --qps: "),
    ],
)
def test_mistakes_are_named_by_their_options(
    inferometer: Command, words: tuple[str, ...], message: str
) -> None:
    """A user who wrote no YAML reads no path and no line of it."""
    target = () if "--url" in words else (_ZOO,)
    mistaken = inferometer("run", *words, *target)
    assert mistaken.code == ExitCode.REFUSED
    assert "The command line is not a valid BenchmarkRun" in mistaken.stderr
    assert message in mistaken.stderr
    assert "spec." not in mistaken.stderr


@pytest.mark.parametrize("has_file", [True, False])
def test_the_verdict_of_a_run_without_a_file_names_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_file: bool
) -> None:
    """The table does; the document that is kept has the fields."""
    document = a_result()
    (finding, *_), before = document.scenarios[1].verdict.reasons, document.scenarios
    finding = finding.model_copy(update={"message": "Set probe.maxSeconds to at least 21."})
    verdict = before[1].verdict.model_copy(update={"reasons": [finding]})
    scenarios = [before[0], before[1].model_copy(update={"verdict": verdict})]
    document = document.model_copy(update={"scenarios": scenarios})
    keep_and_show(document, tmp_path, Showing(json=False, save=False, has_file=has_file))
    shown = " ".join(capsys.readouterr().out.split())
    assert ("Set --seconds to at least 21." in shown) is not has_file
    assert ("Set probe.maxSeconds to at least 21." in shown) is has_file
    assert "Set probe.maxSeconds to at least 21." in (tmp_path / "result.json").read_text()


def test_messages_about_a_run_without_a_file_name_options() -> None:
    """Fields without an option are set with --set, and the hint shows how."""
    late = "The server was not ready within 9 s (server.readyDeadlineSeconds): it answered 503."
    assert in_flags(late) == "The server was not ready within 9 s (--wait): it answered 503."
    assert in_flags("Name an inference server in spec.server.external, with") == (
        "Name an inference server in --url, with"
    )
    assert field_hint(late) == ""
    other = "The server speaks HTTP/1.1. Write http:// with load.protocol: HTTP, or name its port."
    assert in_flags(other) == "The server speaks HTTP/1.1. Write http://, or name its port."
    assert field_hint(other) == ""
    denied = "The server at h:1 denies access: 401. Set load.headersFile to headers."
    assert "such as load.headersFile, add --set spec.load.headersFile=VALUE" in field_hint(denied)
    for path in ("/home/my/model.onnx", "model.onnx", "server.yaml"):
        assert field_hint(f"The external data of {path} is not there.") == ""
    assert "such as load.tls," in field_hint("model.onnx is there. Set load.tls.")
    assert field_hint("Set validity.repeats to 3 or more.").count("validity.repeats") == 2
