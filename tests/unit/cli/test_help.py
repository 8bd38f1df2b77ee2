"""The help of every command, and the completion of shells."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from inferometer_cli.command_line import app
from inferometer_results.nodes.comm_scope_names import OF_FIGURES
from inferometer_serving.command_line import OPTIONS
from inferometer_serving.node.__main__ import UnknownPrimitiveError, measure
from support.command import Command

TREE: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
COMMANDS = tuple(TREE)
SUBCOMMANDS = tuple(
    f"{name} {each}" for name, group in TREE.items() for each in getattr(group, "commands", ())
)
HEAVY = (
    "alembic",
    "fastapi",
    "grpc",
    "jinja2",
    "kopf",
    "kubernetes",
    "numpy",
    "onnx",
    "onnxruntime",
    "sqlalchemy",
    "urllib3",
    "uvicorn",
)


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


def test_a_bare_command_prints_help(inferometer: Command) -> None:
    """Without arguments the help of all commands is shown, with the exit codes."""
    completed = inferometer()
    for command in COMMANDS:
        assert f"  {command} " in completed.stdout + completed.stderr
    assert "130 interrupted" in completed.stdout + completed.stderr


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_every_help_is_alike(inferometer: Command, command: str) -> None:
    """-h is --help; each has usage, purpose and options, in the words of a shell, not of Python."""
    completed = inferometer(*command.split(), "-h")
    assert completed == inferometer(*command.split(), "--help")
    assert completed.code == 0
    lines = completed.stdout.splitlines()
    assert lines[0].startswith(f"Usage: inferometer {command} [OPTIONS]")
    assert lines[2].strip()
    assert "Options:" in lines
    assert "  -h, --help" in completed.stdout
    for word in ("None", "True", "False", "(1,)", "<str>", "<path>", "<int", "<list"):
        assert word not in completed.stdout


@pytest.mark.parametrize("group", ["", *(name for name in TREE if hasattr(TREE[name], "commands"))])
def test_a_list_of_commands_cuts_no_sentence(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """At 80 columns each command's purpose is whole."""
    monkeypatch.setenv("COLUMNS", "80")
    _, _, listed = inferometer(*group.split(), "--help").stdout.partition("Commands:\n")
    assert listed
    assert "..." not in listed


def test_node_lists_what_its_names_begin_with(inferometer: Command, tmp_path: Path) -> None:
    """Every name that can be measured begins with a word of `node --help`."""
    completed = " ".join(inferometer("node", "--help").stdout.split())
    listed, comma, _ = completed.partition("begin so: ")[2].partition(", and Comm|Scope")
    assert comma
    with pytest.raises(UnknownPrimitiveError) as refused:
        measure(tmp_path, ("no such name",), 1)
    names = str(refused.value).rstrip(".").partition("There are ")[2].split(", ")
    assert "steal" in names
    begins = (*listed.split(", "), *OF_FIGURES)
    of_figures = [each for each in names if each != "storage"]  # its figures are disk, pageCache
    assert [each for each in of_figures if not each.startswith(begins)] == []


def test_serve_lists_the_options_of_the_server(inferometer: Command) -> None:
    """`serve --help` has every option with its default, as the other commands do."""
    completed = " ".join(inferometer("serve", "--help").stdout.split())
    assert all(f" {option.flag} " in completed for option in OPTIONS)
    for default in ("8000", "8001", "CPU", "127.0.0.1", "30.0", "none", "on", "off"):
        assert f"[default: {default}]" in completed


@pytest.mark.parametrize(
    ("shell", "typed"),
    [
        ("bash", {"COMP_WORDS": "inferometer va", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "inferometer va"}),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "inferometer va", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        ),
    ],
)
def test_shells_complete_commands(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch, shell: str, typed: dict[str, str]
) -> None:
    """bash, zsh and fish get a script to install, and complete the names of commands."""
    monkeypatch.setenv("_INFEROMETER_COMPLETE", f"source_{shell}")
    assert "_INFEROMETER_COMPLETE=complete_" in inferometer().stdout
    monkeypatch.setenv("_INFEROMETER_COMPLETE", f"complete_{shell}")
    for name, value in typed.items():
        monkeypatch.setenv(name, value)
    assert "validate" in inferometer().stdout
    assert "serve" not in inferometer().stdout


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("inferometer explain BusyM", ["BusyMachine"]),
        ("inferometer examples 09", ["09-peak"]),
        ("inferometer report --format ju", ["junit"]),
    ],
)
def test_shells_complete_names(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch, typed: str, completed: list[str]
) -> None:
    """Rules, examples and the choices of an option are completed too."""
    monkeypatch.setenv("_INFEROMETER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert inferometer().stdout.split() == completed


def test_help_imports_nothing_heavy() -> None:
    """Slow modules are imported only by the commands that need them."""
    program = (
        "import sys, inferometer_cli.command_line; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    words = [sys.executable, "-c", program]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_usage_names_the_program_as_it_was_called(
    inferometer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called through kubectl, help and hints say `kubectl inferometer`."""
    assert inferometer("status", "--help").stdout.startswith("Usage: inferometer status ")
    monkeypatch.setattr("inferometer_cli.program.program_name", lambda: "kubectl inferometer")
    monkeypatch.setattr("inferometer_cli.__main__.program_name", lambda: "kubectl inferometer")
    assert inferometer("status", "--help").stdout.startswith("Usage: kubectl inferometer status ")
