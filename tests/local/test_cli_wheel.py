"""The built wheel, alone in an empty environment, does all that the checkout does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.inferometer_process import result_in
from support.requirements import cannot_run

ROOT = Path(__file__).parents[2]
_OURS = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
"""What of the environment would lead back to the checkout, or slow every start."""
UV = Path(sys.executable).with_name("uv")


def _run(folder: Path, *words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
    ended = subprocess.run(
        words,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in _OURS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in codes, f"{words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def inferometer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of a wheel built here and installed with [cpu] and nothing else."""
    if not UV.exists():
        cannot_run(f"the wheel is built and installed by {UV}, which is not there")
    folder = tmp_path_factory.mktemp("wheel")
    _run(ROOT, UV, "build", "--quiet", "--wheel", "--out-dir", folder)
    (wheel,) = folder.glob("*.whl")
    _run(folder, UV, "venv", "--quiet", "--python", sys.executable, "env")
    python = folder / "env" / "bin" / "python"
    _run(folder, UV, "pip", "install", "--quiet", "--python", python, f"{wheel}[cpu]")
    return python.with_name("inferometer")


def test_a_wheel_alone_does_all(inferometer: Path, tmp_path: Path) -> None:
    """Zoo, examples with their files and templates are inside: a run reaches its report."""
    assert len(_run(tmp_path, inferometer, "models").splitlines()) == 1 + 70
    listed = [line.split()[0] for line in _run(tmp_path, inferometer, "examples").splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "examples").glob("*.yaml"))
    _run(tmp_path, inferometer, "examples", "04-own-model", "--output", ".")
    assert (tmp_path / "04-own-model" / "inputs.npz").is_file()
    _run(tmp_path, inferometer, "validate", "04-own-model.yaml")
    example = tmp_path / "run.yaml"
    example.write_text(_run(tmp_path, inferometer, "examples", "02-minilm-grpc"))
    sets = ("validity.minDurationSeconds=1", "validity.minQueries=1", "validity.warmUpSeconds=0")
    short = [word for each in sets for word in ("--set", f"spec.{each}")]
    _run(tmp_path, inferometer, "run", "run.yaml", "-o", "out", *short, codes=(0, 3))
    result = result_in(tmp_path / "out")
    assert result.outcome.state == "Complete"
    assert all(step.counts.succeeded for each in result.scenarios for step in each.steps)
    page = tmp_path / "out" / "report.html"
    drawn = page.read_text()
    page.unlink()
    assert "What to do" in _run(tmp_path, inferometer, "explain", "BusyMachine")
    assert "steady" in _run(tmp_path, inferometer, "report", "out/result.json")
    assert page.read_text() == drawn
