"""Versions of the engines on this machine: installed here, with a server, and loaded by one."""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from inferometer_api.runtimes.descriptor import LocalSupport

_PACKAGES = {"onnxruntime": ("onnxruntime-gpu", "onnxruntime"), "openvino": ("openvino",)}
"""The packages that bring each engine."""
_LIBRARIES = {
    "onnxruntime": (re.compile(r"libonnxruntime\.so\.(\d+)\.(\d+)\.(\d+)"), "{}.{}.{}"),
    "openvino": (re.compile(r"libopenvino\.so\.(\d\d)(\d)(\d)"), "20{}.{}.{}"),
}
"""Names of the engines' libraries, and the versions in them: libopenvino.so.2641 is 2026.4.1."""
_INTERPRETER = re.compile(r"""(?:#!|'''exec' ?)\s*"?(/[^"\n]*?/python[\d.]*)"?(?:\s|$)""")
_LONGEST_LINE = 4096
_PROCESSES = Path("/proc")


def installed_engines() -> dict[str, str]:
    """Return the versions of the engines of our servers that are installed here, by name."""
    found = {}
    for name, packages in _PACKAGES.items():
        for package in packages:
            with suppress(PackageNotFoundError):
                found[name] = version(package)
    return found


def engines_of(local: LocalSupport, engine: str) -> dict[str, str]:
    """Return the versions of engines that a local server has, by name; "" if not known.

    They are known of a program of Python that runs in the environment in which it lies: a wrapper
    may start another one.
    """
    if local.executable is None:
        return installed_engines()
    found = shutil.which(local.executable)
    if found is None:
        return {engine: ""}
    program = Path(found).resolve()
    runs_here = any(each.parent.resolve() == program.parent for each in _interpreters(program))
    folders = program.parent.parent.glob("lib/python*/site-packages") if runs_here else ()
    versions = (_version_in(each, engine) for each in folders)
    return {engine: next(filter(None, versions), "")}


def _interpreters(program: Path) -> Iterator[Path]:
    """Yield the Python that a script names; a long path stands in its second line."""
    try:
        with program.open("rb") as file:
            lines = [file.readline(_LONGEST_LINE) for _ in range(2)]
    except OSError:
        return
    for line in lines:
        if found := _INTERPRETER.match(line.decode(errors="replace")):
            yield Path(found[1])


def loaded_version(session: int, engine: str) -> str:
    """Return the version of an engine that processes of a session have loaded.

    `session` is the ID of the process that leads it. Empty if none of them has the engine in its
    memory, or the files there do not have its version.
    """
    files = {file for process in _processes(session) for file in _mapped_files(process)}
    for file in sorted(files):
        packages = (each for each in Path(file).parents if each.name == engine)
        versions = (_version_in(each.parent, engine) for each in packages)
        if known := next(filter(None, versions), ""):
            return known
    pattern, form = _LIBRARIES[engine]
    names = (pattern.fullmatch(Path(file).name) for file in sorted(files))
    return next((form.format(*name.groups()) for name in names if name), "")


def _version_in(folder: Path, engine: str) -> str:
    """Return the version of an engine's package in a folder of packages; "" if it has none."""
    of_engine = _PACKAGES.get(engine, ())
    return next(
        (
            each.version
            for name in of_engine
            for each in distributions(name=name, path=[str(folder)])
        ),
        "",
    )


def _processes(session: int) -> Iterator[Path]:
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            # The program's name before it may have spaces and brackets.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                yield stat.parent


def _mapped_files(process: Path) -> set[str]:
    try:
        lines = (process / "maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line[line.index("/") :] for line in lines if "/" in line}
