"""A PostgreSQL server of the test's own, on a socket in the test's folder."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from support.requirements import cannot_run

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
SERVER_USER = "nobody"
"""The server refuses to run as root."""


@contextmanager
def postgresql(folder: Path, *, is_durable: bool = False) -> Iterator[str]:
    """Start a server; yield the address of an empty database. Skips the test if there is none.

    Without `is_durable` it does not wait for the disk.
    """
    program = postgres_program()
    if program is None:
        cannot_run("PostgreSQL is not installed (tests/install-tools verify)")
    programs, data = Path(program).parent, initialise(folder)
    options = f"-k {folder} -c listen_addresses= -c fsync={'on' if is_durable else 'off'}"
    _run(programs / "pg_ctl", "start", "-w", "-D", data, "-o", options, "-l", folder / "log")
    try:
        yield f"postgresql://tests@/postgres?host={quote(str(folder), safe='')}"
    finally:
        _run(programs / "pg_ctl", "stop", "-w", "-m", "immediate", "-D", data)


def initialise(folder: Path) -> Path:
    """Make an empty cluster of databases of the user `tests`; return its folder."""
    program, data = Path(postgres_program() or "postgres"), folder / "data"
    data.mkdir(parents=True)
    for each in (folder, data):
        shutil.chown(each, SERVER_USER if os.getuid() == 0 else os.getuid())
    words = ("--pgdata", data, "--username=tests", "--auth=trust", "--no-sync")
    _run(program.with_name("initdb"), *words)
    return data


def postgres_program() -> str | None:
    """Return the path of the server, None if it is not installed."""
    return shutil.which("postgres", path=":".join(map(str, _FOLDERS)))


def run_program(name: str, *words: str, stdin: str = "") -> str:
    """Run one of PostgreSQL's programs; return what it printed."""
    program = shutil.which(name, path=":".join(map(str, _FOLDERS)))
    assert program is not None, f"{name} is not installed"
    output = subprocess.run(
        [program, *words], input=stdin, capture_output=True, text=True, check=False, cwd="/"
    )
    assert output.returncode == 0, output.stdout + output.stderr
    return output.stdout


def _run(*words: object) -> None:
    user = SERVER_USER if os.getuid() == 0 else None
    output = subprocess.run(
        [str(word) for word in words],
        user=user,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert output.returncode == 0, output.stdout + output.stderr
