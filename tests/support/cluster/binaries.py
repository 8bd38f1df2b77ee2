"""Finds the cluster's binaries, and builds missing ones.

Built once into `$INFEROMETER_CACHE` (else the user's cache folder), in a folder per binary that is
named after a hash of its pins.
"""

import fcntl
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cluster import go_toolchain
from support.cluster.messages import say
from support.cluster.pins import MODULES, PINS, Pin, key, linker_flags


def cache_folder() -> Path:
    """Return the folder in which everything that is costly to make is kept."""
    named = os.environ.get("INFEROMETER_CACHE")
    if named:
        return Path(named).absolute()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "inferometer"


def module_folder(module: str, pinned: Path) -> Path:
    """Return the folder of a Go module, in the version that `pinned` has; fetched once."""
    done = subprocess.run(
        [go_toolchain.go(cache_folder()), "mod", "download", "-json", module],
        cwd=pinned,
        env=os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} was to be downloaded, and Go refused: {done.stdout[-2000:]}")
    return Path(json.loads(done.stdout)["Dir"])


def binary(name: str) -> Path:
    """Return the path of this binary, which is built first where it is missing."""
    return ensure([name])[name]


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """Return the path of each binary; build those that are missing, and say so on stderr."""
    pins = [PINS[name] for name in names]
    if any(not _path(pin).exists() for pin in pins):
        with _builder(cache_folder() / "bin"):
            # Looked at again: another builder may have made them while this one waited.
            _build([pin for pin in pins if not _path(pin).exists()])
    return {pin.name: _path(pin) for pin in pins}


def path_folder() -> Path:
    """Return a folder for a user's PATH, with kubectl and helm as they are pinned now."""
    folder = cache_folder() / "path"
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in ensure(("kubectl", "helm")).items():
        link = folder / name
        fresh = folder / f".{name}-{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(program)
        fresh.replace(link)
    return folder


def missing(names: Iterable[str]) -> list[str]:
    """Return which of these binaries have yet to be built."""
    return [name for name in names if not _path(PINS[name]).exists()]


def _path(pin: Pin) -> Path:
    return cache_folder() / "bin" / f"{pin.name}-{key(pin)}" / pin.name


def _build(pins: list[Pin]) -> None:
    if not pins:
        return
    minutes = max(1, round(sum(pin.about_seconds for pin in pins) / 60))
    say(
        f"Building {len(pins)} programs of a real Kubernetes from pinned Go modules, for the tests"
        f" and the local cluster: {', '.join(pin.name for pin in pins)}."
    )
    say(f"This happens once, into {cache_folder() / 'bin'}: about {minutes} min on 2 cores.")
    compiler = go_toolchain.go(cache_folder())
    for number, pin in enumerate(pins, 1):
        began = time.monotonic()
        say(f"  [{number}/{len(pins)}] {pin.name} (at most about {pin.about_seconds} s) ...")
        _compile(compiler, pin)
        size = _path(pin).stat().st_size >> 20
        say(f"  [{number}/{len(pins)}] {pin.name}: {time.monotonic() - began:.0f} s, {size} MiB")


def _compile(compiler: Path, pin: Pin) -> None:
    """Build one binary under a temporary name; only a whole one gets its own."""
    final = _path(pin)
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as folder:
        made = Path(folder) / pin.name
        flags = ["-tags", ",".join(pin.tags), "-ldflags", linker_flags(pin)]
        options = ["-trimpath", *flags, "-o", str(made)]
        done = subprocess.run(
            [str(compiler), "build", *options, pin.package],
            cwd=MODULES / pin.module,
            env=os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(
                f"{pin.name} was to be built from {pin.package} in {MODULES / pin.module}, and Go"
                f" ended with {done.returncode}: {done.stderr[-4000:]}"
            )
        made.rename(final)


@contextmanager
def _builder(folder: Path) -> Iterator[None]:
    """Hold the right to build: a second builder waits for the first and finds its work done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Another process is building into {folder}: waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
