"""`tests/install-tools` reports what it cannot install, and fails if apt-get does."""

import shutil
import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "install-tools"
_PROGRAMS = ("bash", "dirname", "sed", "tail", "uname")
_FAILING = "echo 'E: Unable to locate package runc' >&2; exit 100"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Make a folder with the few programs of a machine that lacks all that is to be installed."""
    for name in _PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        (tmp_path / name).symlink_to(found)
    _write(tmp_path / "id", "echo 0")
    return tmp_path


def _write(path: Path, body: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
    path.chmod(0o755)


def _run(programs: Path, ci: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs)} | ({} if ci is None else {"CI": ci})
    return subprocess.run(
        [_SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("ci", [None, "true"])
@pytest.mark.parametrize("verb", ["update", "install"])
def test_a_failing_apt_get_is_an_error_with_its_reason(
    programs: Path, verb: str, ci: str | None
) -> None:
    """Its own complaint is printed, with CI=true and without."""
    _write(programs / "apt-get", f'case "$1" in {verb}) {_FAILING};; esac')
    done = _run(programs, ci)
    assert done.returncode == 1
    assert f"Error: apt-get {verb} failed, so the tests on a cluster with nodes" in done.stderr
    assert "    E: Unable to locate package runc" in done.stderr


def test_packages_without_their_programs_are_an_error(programs: Path) -> None:
    """An apt-get that installs something else is not believed."""
    _write(programs / "apt-get", "exit 0")
    done = _run(programs)
    assert done.returncode == 1
    assert "but not the programs in them" in done.stderr


def test_a_machine_that_can_install_nothing_skips_by_name(programs: Path) -> None:
    """Without apt-get the tests are skipped with a reason; with CI=true that is an error."""
    done = _run(programs)
    assert done.returncode == 0
    assert "Not installed here: containerd" in done.stderr
    assert "will be skipped" in done.stderr
    assert _run(programs, "true").returncode == 1
