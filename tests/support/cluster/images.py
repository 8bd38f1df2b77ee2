"""Archives of the project's images for the nodes of the tests, built once per set of sources."""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from images.builder import Buildah, Builder, build_image, run, say, usable_builder
from images.catalogue import IMAGES, LIGHT, ROOT, reference, version

from support.cluster.binaries import cache_folder
from support.cluster.debian_base import base_name, debian_base

_MAX_ARCHIVES = 4
_RETENTION_SECONDS = 3600
"""Archives of one image that stay: the last few, and those that a test may be about to read."""
_STORE_MAX_MEBIBYTES = 6144
"""The limit of the layers kept for the next build; past it, unused layers are removed."""


RESULTS_IMAGE = "inferometer-results"
_OF_RUNS = tuple(name for name in LIGHT if name != RESULTS_IMAGE)


def images(names: Sequence[str] = _OF_RUNS) -> list[Path]:
    """Build the images of this checkout that changed, and return an OCI archive of each.

    Nodes know them as inferometer-operator, -loadgen, -telemetry and -serving with the version as
    tag, the defaults of the charts. Raises CommandError.
    """
    return archives(ROOT, cache_folder(), names)


def archives(root: Path, cache: Path, names: Sequence[str] = LIGHT) -> list[Path]:
    """Build the images of a checkout that changed, and return an archive of each.

    The archives lie below `cache` and are named by a hash of what goes in. Containerd imports them
    as docker.io/library/NAME:VERSION, which is "NAME:VERSION" for a node. Raises CommandError.
    """
    folder = cache / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with images_locked(folder):
        builder = usable_builder(store=folder / "store")
        base = base_name() if isinstance(builder, Buildah) else None
        found = {}
        for name in names:
            key = fingerprint(root, name, base or "")
            found[name] = folder / f"{name}-{key}.tar"
        stale = [name for name, archive in found.items() if not archive.exists()]
        if stale:
            _build(root, folder, builder, {name: found[name] for name in stale})
        for archive in found.values():
            os.utime(archive)
        for name in names:
            _drop_oldest(folder, name)
    return list(found.values())


def copied(dockerfile: str, target: str) -> tuple[str, ...]:
    """Return the paths that a Dockerfile copies from its context for a target, sorted."""
    stages = {
        name: (base, body)
        for base, name, body in re.findall(
            r"^FROM (\S+) AS (\S+)\n(.*?)(?=^FROM |\Z)", dockerfile, flags=re.MULTILINE | re.DOTALL
        )
    }
    paths: set[str] = set()
    waiting = [target]
    while waiting:
        stage = waiting.pop()
        if stage not in stages:  # the base image
            continue
        base, body = stages[stage]
        waiting += [base, *re.findall(r"^COPY --from=(\S+)", body, flags=re.MULTILINE)]
        for line in re.findall(r"^COPY (?!--from)(.+)$", body, flags=re.MULTILINE):
            paths.update(line.split()[:-1])
    return tuple(sorted(paths))


def fingerprint(root: Path, image: str, base_image: str) -> str:
    """Return a short hash of everything an image is made from: files, target, base, machine."""
    digest = hashlib.sha256()
    digest.update(f"{image}\0{base_image}\0{platform.machine()}".encode())
    dockerfile = root / "Dockerfile"
    sources = [root / path for path in copied(dockerfile.read_text(), IMAGES[image])]
    for path in (dockerfile, root / ".dockerignore", *sources):
        for file in _files(path):
            content = file.read_bytes()
            digest.update(f"\0{file.relative_to(root)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def write_atomically(archive: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file next to `archive`, then rename it: no reader finds half a file."""
    partial_archive = archive.with_name(f".{archive.name}.{os.getpid()}.partial")
    try:
        write(partial_archive)
        partial_archive.replace(archive)
    finally:
        partial_archive.unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(
        each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts
    )


def _build(root: Path, folder: Path, builder: Builder, wanted: dict[str, Path]) -> None:
    say(
        f"Building {len(wanted)} of the container images in {folder}: two to five minutes for the "
        "first build, seconds if only sources changed."
    )
    # the leftovers of builds that were killed
    for left in (*folder.glob("debian-*"), *folder.glob(".*.partial")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    base = None
    if isinstance(builder, Buildah):
        _prune(builder, folder / "store")
        base = debian_base(builder, folder)
    for name, archive in wanted.items():
        built = reference(name, registry="", tag=version(root))
        build_image(builder, root, name, built, base)
        write_atomically(archive, partial(builder.save, built))


def _prune(buildah: Buildah, store: Path) -> None:
    if not store.exists():
        return
    mebibytes = int(run(["du", "-sxm", store]).split()[0])
    if mebibytes > _STORE_MAX_MEBIBYTES:
        say(f"The layers in {store} take {mebibytes:,} MiB: removing those that no image uses.")
        buildah.run("rm", "--all")  # containers of builds that were killed use images
        buildah.run("rmi", "--prune")


def _drop_oldest(folder: Path, name: str) -> None:
    # 16 hex digits: the name of one image may be the start of another's
    archives_by_age = sorted(
        folder.glob(f"{name}-{'[0-9a-f]' * 16}.tar"), key=lambda path: path.stat().st_mtime
    )
    for archive in archives_by_age[:-_MAX_ARCHIVES]:
        if time.time() - archive.stat().st_mtime > _RETENTION_SECONDS:
            archive.unlink()


@contextmanager
def images_locked(folder: Path) -> Iterator[None]:
    """Hold the right to build images: a second builder waits for the first."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is building container images: waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
