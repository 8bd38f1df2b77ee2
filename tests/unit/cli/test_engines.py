"""The version of an engine is that of the files which a server's processes have loaded."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from inferometer_api.runtimes.table import RUNTIMES
from inferometer_cli.local import engines
from support.command import Command
from support.digits import MANIFEST
from support.inferometer_process import run_file
from support.onnx_models import identity, save
from support.waiting import killed_at_deadline

_LOADS = "import onnxruntime; print(flush=True); input()"
_SERVES = """\
import http.server, sys
import onnxruntime

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

port = next(each for each in sys.argv if each.startswith("--http-port=")).partition("=")[2]
http.server.HTTPServer(("127.0.0.1", int(port)), Ready).serve_forever()
"""


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command of `inferometer` in this process."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "dumb")
    return Command(monkeypatch, capsys)


def _session(folder: Path, monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
    """Let process 7 lead a session in which process 8 has mapped some files."""
    folder.mkdir(exist_ok=True)
    for process, mapped in ((7, ()), (8, files), (9, ("/x/libopenvino.so.2990",))):
        of_process = folder / str(process)
        of_process.mkdir()
        session = 9 if process == 9 else 7
        (of_process / "stat").write_text(f"{process} (a (b) c) S 1 {session} {session} 0 -1")
        lines = (f"7f00-7f01 r-xp 00000000 fe:00 42 {each}\n" for each in mapped)
        (of_process / "maps").write_text("7f00-7f01 rw-p 00000000 00:00 0\n" + "".join(lines))
    monkeypatch.setattr(engines, "_PROCESSES", folder)


@pytest.mark.parametrize(
    ("engine", "files", "found"),
    [
        ("openvino", ["/opt/tritonserver/backends/openvino/libopenvino.so.2440"], "2024.4.0"),
        ("onnxruntime", ["/opt/x y/libonnxruntime.so.1.19.2"], "1.19.2"),
        ("onnxruntime", ["/opt/backends/onnxruntime/libonnxruntime.so"], ""),
        ("onnxruntime", ["/opt/libopenvino.so.2440"], ""),
        ("onnxruntime", [], ""),
    ],
)
def test_libraries_have_their_version_in_their_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    files: list[str],
    found: str,
) -> None:
    """Of every process of the session, and of no other one."""
    _session(tmp_path, monkeypatch, *files)
    assert engines.loaded_version(7, engine) == found


def test_a_package_that_a_process_has_loaded_is_known() -> None:
    """Whatever started the process: a wrapper hides the environment, the memory does not."""
    with subprocess.Popen(
        [sys.executable, "-c", _LOADS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        with killed_at_deadline(process, "a process that has loaded a package"):
            assert process.stdout.readline() == b"\n"
            assert engines.loaded_version(process.pid, "onnxruntime") == version("onnxruntime")
            assert engines.loaded_version(process.pid, "openvino") == ""
            process.communicate(b"\n")


def test_a_folder_above_a_package_may_have_the_engines_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is the folder of this name that lies next to its metadata."""
    site = tmp_path / "onnxruntime" / "site"
    metadata = site / "onnxruntime-1.22.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: onnxruntime\nVersion: 1.22.1\n")
    _session(tmp_path / "proc", monkeypatch, f"{site}/onnxruntime/capi/state.so")
    assert engines.loaded_version(7, "onnxruntime") == "1.22.1"


@pytest.mark.parametrize(
    ("begin", "version"),
    [
        ("#!{bin}/python3.11\n", "2.0.1"),
        ("#! {bin}/python -s\n", "2.0.1"),
        ('#!/bin/sh\n\'\'\'exec\' "{bin}/python" "$0" "$@"\n', "2.0.1"),
        ('#!/bin/sh\nexec /opt/mlserver/bin/mlserver "$@"\n', ""),
        ("#!/usr/bin/python3\n", ""),
        ("\x7fELF", ""),
    ],
)
def test_a_wrapper_has_not_the_engine_of_the_folder_in_which_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str, version: str
) -> None:
    """Only a script that names the Python next to it runs in that environment."""
    program = tmp_path / "bin" / "mlserver"
    program.parent.mkdir()
    program.write_text(begin.format(bin=program.parent))
    program.chmod(0o755)
    metadata = tmp_path / "lib/python3.11/site-packages/onnxruntime-2.0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: onnxruntime\nVersion: 2.0.1\n")
    monkeypatch.setenv("PATH", str(program.parent))
    launch = RUNTIMES["MLServer"].launch
    assert launch
    assert launch.local
    assert engines.engines_of(launch.local, "onnxruntime") == {"onnxruntime": version}


@pytest.mark.parametrize("constraint", [">=1.20 <2", "^2"])
def test_the_engine_of_a_wrapped_server_is_compared_once_it_runs(
    inferometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constraint: str
) -> None:
    """Triton reports no version: `validate` and `run` compare that of its processes."""
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    (tmp_path / "server.py").write_text(_SERVES)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/server.py "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    text = MANIFEST.replace(">=1.20 <2", constraint)
    assert constraint in text
    (tmp_path / "model.yaml").write_text(text)
    save(identity(), tmp_path / "model.onnx")
    server = {"runtime": "Triton", "tritonBackend": "Python"}
    spec = {"model": {"uri": "file:model.onnx"}, "server": server}
    file = str(run_file(tmp_path, {"singleStream": {}}, spec=spec))
    refusal = f"nothing here satisfies that: the nearest is onnxruntime {version('onnxruntime')}"
    ended = inferometer("validate", file)
    assert (ended.code, refusal in ended.stderr) == (
        (2, True) if constraint == "^2" else (0, False)
    )
    if constraint == "^2":
        ended = inferometer("run", file)
        assert (ended.code, refusal in ended.stderr) == (2, True)


def test_a_server_whose_interpreter_is_missing_is_named(
    inferometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an environment that was moved: `validate` and `run` refuse alike."""
    program = tmp_path / "bin" / "mlserver"
    program.parent.mkdir()
    program.write_text("#!/nonexistent/python\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    spec = {"model": {"uri": "file:model.onnx"}, "server": {"runtime": "MLServer"}}
    save(identity(), tmp_path / "model.onnx")
    file = str(run_file(tmp_path, {"singleStream": {}}, spec=spec))
    for command in ("validate", "run"):
        ended = inferometer(command, file)
        assert ended.code == 2
        assert (
            f"The server cannot be started: {program}: No such file or directory." in ended.stderr
        )
