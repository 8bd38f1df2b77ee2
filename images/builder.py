"""The command lines with which docker and buildah build, push and save an image."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from images.catalogue import IMAGES, name_in_cluster, version

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""The certificates that this machine trusts. A build sees them, so that it can use an index behind
a proxy."""
_TAIL_LINES = 40


class CommandError(Exception):
    """A command failed or is not installed."""


class Builder(Protocol):
    """Builds images, and finds those that it built by their references."""

    name: str

    def build(self, root: Path, image: str, reference: str, base_image: str | None) -> None:
        """Build an image of a checkout; None keeps the base that the Dockerfile names."""

    def push(self, reference: str) -> None:
        """Push an image to the registry in its reference."""

    def save(self, reference: str, archive: Path) -> None:
        """Write an image to an archive that containerd imports under the name a node uses."""


class Docker:
    """Docker with BuildKit, which is its default since version 23."""

    name = "docker"

    def build(self, root: Path, image: str, reference: str, base_image: str | None) -> None:
        """Build an image of a checkout."""
        run(["docker", "build", *_options(root, image, reference, base_image), "."], folder=root)

    def push(self, reference: str) -> None:
        """Push an image to the registry in its reference."""
        run(["docker", "push", "--quiet", reference])

    def save(self, reference: str, archive: Path) -> None:
        """Write an image to an archive."""
        run(["docker", "save", "--output", archive, reference])


class Buildah:
    """Buildah, which needs no daemon and no container runtime."""

    name = "buildah"

    def __init__(self, store: Path | None = None) -> None:
        """Keep images in the folder `store`; None means the user's own store."""
        self._words: list[str | Path] = ["buildah"]
        if store is not None:
            # the cache mounts of builds lie with temporary files
            self._words = ["env", f"TMPDIR={store / 'tmp'}", *self._words]
            self._words += ["--root", store / "root", "--runroot", store / "run"]
            self._words += ["--storage-driver", _driver()]
            (store / "tmp").mkdir(parents=True, exist_ok=True)

    def build(self, root: Path, image: str, reference: str, base_image: str | None) -> None:
        """Build an image of a checkout."""
        how = ("--layers", "--isolation", "chroot", "--network", "host")
        options = _options(root, image, reference, base_image)
        self.run("bud", *how, *options, ".", folder=root)

    def push(self, reference: str) -> None:
        """Push an image to the registry in its reference."""
        self.run("push", "--quiet", reference, f"docker://{reference}")

    def save(self, reference: str, archive: Path) -> None:
        """Write an image to an OCI archive; zstd takes half of gzip's time, and less to import."""
        target = f"oci-archive:{archive}:{name_in_cluster(reference)}"
        packed = ("--compression-format", "zstd", "--compression-level", "1")
        self.run("push", "--quiet", *packed, _local(reference), target)

    def has(self, reference: str) -> bool:
        """Return whether the store has an image of this name."""
        return succeeds([*self._words, "inspect", "--type", "image", reference])

    def run(self, *words: str | Path, folder: Path | None = None) -> str:
        """Run a buildah command on this store and return its standard output."""
        return run([*self._words, *words], folder=folder)


def usable_builder(name: str = "auto", store: Path | None = None) -> Docker | Buildah:
    """Return docker if its daemon answers, else buildah with this store.

    `name` docker or buildah selects that one. Raises CommandError if neither is usable.
    """
    if name == "docker" or (name == "auto" and succeeds(["docker", "version"])):
        return Docker()
    if name == "buildah" or shutil.which("buildah"):
        return Buildah(store)
    raise CommandError(
        "Neither docker nor buildah can build images here: no Docker daemon answers and 'buildah' "
        "is not installed. Install one of them; on Debian: apt-get install buildah."
    )


def build_image(
    builder: Builder, root: Path, image: str, reference: str, base_image: str | None
) -> None:
    """Build one image, and report the start and the end on standard error."""
    say(f"Building {reference} with {builder.name} ...")
    began = time.monotonic()
    builder.build(root, image, reference, base_image)
    say(f"Built {reference} in {time.monotonic() - began:.0f} s.")


def say(sentence: str) -> None:
    """Print a line to standard error at once."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def run(words: Sequence[str | Path], *, folder: Path | None = None) -> str:
    """Run a command and return its standard output. Raises CommandError with its last lines."""
    try:
        ended = subprocess.run(  # noqa: S603 - words of our own, without a shell
            words, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError as error:
        raise CommandError(f"'{words[0]}' is not installed: install it and try again.") from error
    if ended.returncode != 0:
        tail = "\n    ".join((ended.stdout + ended.stderr).splitlines()[-_TAIL_LINES:])
        command = " ".join(map(str, words))
        raise CommandError(f"The command exited with {ended.returncode}: {command}\n    {tail}")
    return ended.stdout


def succeeds(words: Sequence[str | Path]) -> bool:
    """Return whether a command is installed and exits with 0."""
    try:
        run(words)
    except CommandError:
        return False
    return True


def _options(
    root: Path, image: str, reference: str, base_image: str | None
) -> Sequence[str | Path]:
    """Return the options that both builders share."""
    words: list[str | Path] = ["--target", IMAGES[image], "--tag", reference]
    words += ["--label", f"org.opencontainers.image.title={image}"]
    words += ["--label", f"org.opencontainers.image.version={version(root)}"]
    if base_image is not None:
        words += ["--build-arg", f"BASE_IMAGE={base_image}"]
    return [*words, *build_options()]


def build_options() -> Sequence[str]:
    """Return the options that every build needs on this machine."""
    return ["--secret", f"id=certificates,src={_CERTIFICATES}"] if _CERTIFICATES.exists() else []


def _local(reference: str) -> str:
    """Return buildah's name of an image that it built without a registry."""
    known = name_in_cluster(reference) == reference
    return reference if known else f"localhost/{reference}"


def _driver() -> str:
    """Return the storage driver: overlay needs root, vfs copies each layer but works anywhere."""
    return "overlay" if os.geteuid() == 0 else "vfs"
