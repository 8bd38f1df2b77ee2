"""The command of the broker of weights, on a machine whose GPUs are played."""

import sys
from pathlib import Path

import pytest

from inferometer_serving.gpu.broker import __main__ as command
from inferometer_serving.gpu.broker.__main__ import main

_BROKER_OF_ONE_GPU = """#!{python}
import os, pathlib, signal, sys
if sys.argv[-1] == "0":
    pathlib.Path(__file__).with_name("words").write_text(" ".join(sys.argv[1:]))
    os.kill(os.getpid(), signal.{signal})
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
signal.sigwait([signal.SIGTERM])
"""
"""The process of the first GPU ends by a signal, those of others once they are stopped."""


@pytest.fixture(autouse=True)
def _keep_the_process_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("structlog.configure", lambda **_: None)


@pytest.mark.parametrize(("ends_by", "code"), [("SIGKILL", 1), ("SIGTERM", 0)])
def test_a_process_that_was_killed_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_by: str, code: int
) -> None:
    """All processes get the words of the command; one that was stopped has not failed."""
    python = tmp_path / "python"
    python.write_text(_BROKER_OF_ONE_GPU.format(python=sys.executable, signal=ends_by))
    python.chmod(0o755)
    monkeypatch.setattr(command, "gpu_count", lambda: 2)
    monkeypatch.setattr("sys.executable", str(python))
    assert main(["--folder", "/run/f", "--quota", "1Gi"]) == code
    words = "-m inferometer_serving.gpu.broker --folder /run/f --quota 1Gi --gpu 0"
    assert (tmp_path / "words").read_text() == words


def test_without_a_gpu_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with 2, whether or not a GPU is named."""
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    words = ["--folder", str(tmp_path), "--quota", "1Gi"]
    assert main(words) == 2
    assert "CUDA shows no GPU" in capsys.readouterr().err
    assert main([*words, "--gpu", "0"]) == 2
    assert "cuda-bindings is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("quota", ["", "Gi", "1 Gi", "1ki", "1g", "-1", "0"])
def test_a_quota_that_is_no_size_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quota: str
) -> None:
    """The message says how a size is written."""
    with pytest.raises(SystemExit):
        main(["--folder", str(tmp_path), f"--quota={quota}"])
    assert "is no size above 0, such as 20Gi" in capsys.readouterr().err
