"""Which images do clusters without a registry get, and are they built already?"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from images.builder import Buildah, Builder, usable_builder
from images.catalogue import IMAGES, LIGHT, Image, fingerprint, reference, version
from images.commands import run, say
from images.debian import base_name, debian_base

_KEPT = 4
_KEPT_SECONDS = 3600
"""Archives of one image that stay: the last few, and those that a test may be about to read."""
_STORE_MAX_MEBIBYTES = 6144
"""Layers kept for the next build; past this, those of no image go."""


def archives(root: Path, cache: Path, names: Sequence[str] = LIGHT) -> list[Path]:
    """Build what is stale of a checkout's images and return an archive of each.

    They lie below `cache` and are named by a hash of what goes in; containerd imports them as
    docker.io/library/NAME:VERSION, which a node takes "NAME:VERSION" for. Raises CommandError.
    """
    folder = cache / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder):
        builder = usable_builder(store=folder / "store")
        base = base_name() if isinstance(builder, Buildah) else None
        found = {}
        for name in names:
            key = fingerprint(root, IMAGES[name], base or "")
            found[name] = folder / f"{name}-{key}.tar"
        stale = [name for name, archive in found.items() if not archive.exists()]
        if stale:
            _build(root, folder, builder, {name: found[name] for name in stale})
        for archive in found.values():
            os.utime(archive)
        for name in names:
            _drop_oldest(folder, name)
    return list(found.values())


def build_and_tell(
    builder: Builder, root: Path, image: Image, wanted: str, *, base_image: str | None
) -> None:
    """Build one image, saying so before and after."""
    say(f"Building {wanted} from {image.dockerfile} with {builder.name} ...")
    began = time.monotonic()
    builder.build(root, image, wanted, base_image=base_image, version=version(root))
    say(f"Built {wanted} in {time.monotonic() - began:.0f} s.")


def write_whole(archive: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file beside `archive` and rename it: no half of one is ever found."""
    beside = archive.with_name(f".{archive.name}.{os.getpid()}.partial")
    try:
        write(beside)
        beside.replace(archive)
    finally:
        beside.unlink(missing_ok=True)


def _build(root: Path, folder: Path, builder: Builder, wanted: dict[str, Path]) -> None:
    say(
        f"Building {len(wanted)} of the container images into {folder}: two to five minutes where "
        "nothing is there yet, seconds where only sources changed."
    )
    for left in (
        *folder.glob("debian-*"),
        *folder.glob(".*.partial"),
    ):  # by builds that were killed
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    base = None
    if isinstance(builder, Buildah):
        _bound(builder, folder / "store")
        base = debian_base(builder, folder)
    for name, archive in wanted.items():
        called = reference(name, registry="", tag=version(root))
        build_and_tell(builder, root, IMAGES[name], called, base_image=base)
        write_whole(archive, partial(builder.save, called))


def _bound(buildah: Buildah, store: Path) -> None:
    if not store.exists():
        return
    mebibytes = int(run(["du", "-sxm", store]).split()[0])
    if mebibytes > _STORE_MAX_MEBIBYTES:
        say(f"The layers kept in {store} take {mebibytes:,} MiB: those of no image are removed.")
        buildah.run("rmi", "--prune")


def _drop_oldest(folder: Path, name: str) -> None:
    # 16 hex digits: the name of one image may begin with another's.
    kept = sorted(
        folder.glob(f"{name}-{'[0-9a-f]' * 16}.tar"), key=lambda path: path.stat().st_mtime
    )
    for archive in kept[:-_KEPT]:
        if time.time() - archive.stat().st_mtime > _KEPT_SECONDS:
            archive.unlink()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process builds container images just now: waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
