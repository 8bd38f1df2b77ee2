"""A base image made from Debian's packages, for machines without a registry."""

import hashlib
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path

from images.builder import Buildah, CommandError, run, say

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3", "python3-venv")
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
"""Folders to empty: half of what debootstrap makes, and not used in a container."""


def base_name() -> str:
    """Return the reference of the base, which changes with its ingredients."""
    facts = (_SUITE, platform.machine(), *_PACKAGES, "without", *_LEFT_OUT)
    return f"localhost/inferometer-base:{hashlib.sha256(' '.join(facts).encode()).hexdigest()[:16]}"


def debian_base(buildah: Buildah, folder: Path) -> str:
    """Make the base with debootstrap unless it exists, and return its reference.

    It is put together in `folder`. Raises CommandError if that is not possible here.
    """
    name = base_name()
    if buildah.has(name):
        return name
    if os.geteuid() != 0:
        raise CommandError(
            "The base image of the tests cannot be made: debootstrap needs root. Run the tests as "
            "root, or with a Docker daemon."
        )
    if not shutil.which("debootstrap"):
        raise CommandError(
            "The base image of the tests cannot be made: debootstrap is not installed. Run: "
            "apt-get install debootstrap."
        )
    say(f"Making the base image from Debian {_SUITE}'s packages (about a minute) ...")
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="debian-") as tree:
        _fill(Path(tree))
        _commit(buildah, Path(tree), name)
    say(f"Made {name} in {time.monotonic() - began:.0f} s.")
    return name


def _fill(tree: Path) -> None:
    include = f"--include={','.join(_PACKAGES)}"
    # in its own mount namespace: its mounts disappear with it, even if it is killed
    alone = ("unshare", "--mount", "--propagation", "private", "--")
    run([*alone, "debootstrap", "--variant=minbase", include, _SUITE, tree])
    for each in _LEFT_OUT:
        shutil.rmtree(tree / each)
        (tree / each).mkdir()
    tree.chmod(0o755)


def _commit(buildah: Buildah, tree: Path, name: str) -> None:
    container = buildah.run("from", "scratch").strip()
    try:
        buildah.run("add", "--quiet", container, tree, "/")
        buildah.run(
            "config",
            "--env",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            container,
        )
        buildah.run("commit", "--quiet", container, name)
    finally:
        buildah.run("rm", container)
