"""What is the base image where no registry can be reached? Debian, from its own packages."""

import hashlib
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path

from images.builder import Buildah
from images.commands import CommandError, run, say

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
"""Folders that are emptied: half of what debootstrap makes, and read by nobody in a container."""


def base_name() -> str:
    """Return the reference of the base; another one once what it is made from changes."""
    facts = (_SUITE, platform.machine(), *_PACKAGES, "without", *_LEFT_OUT)
    return f"localhost/inferometer-base:{hashlib.sha256(' '.join(facts).encode()).hexdigest()[:16]}"


def debian_base(buildah: Buildah, folder: Path) -> str:
    """Make the base with debootstrap unless it is there, and return its reference.

    `folder` is where it is put together. Raises CommandError where that cannot be done here.
    """
    name = base_name()
    if buildah.has(name):
        return name
    if os.geteuid() != 0:
        raise CommandError(
            "The base image is made from Debian's packages by debootstrap, which needs root. "
            "As another user, name a base image that can be pulled: make images BASE_IMAGE=..."
        )
    if not shutil.which("debootstrap"):
        raise CommandError(
            "The base image is made from Debian's packages by 'debootstrap', which is not "
            "installed here: apt-get install debootstrap."
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
    # In a mount namespace of its own: what it mounts is gone with it, however it ends.
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
