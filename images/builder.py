"""With which command lines do docker and buildah build, push and save an image?"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from images.catalogue import Image, name_in_cluster
from images.commands import CommandError, run, succeeds

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""What this machine trusts; a build sees it, so that an index behind a proxy can be reached."""


class Builder(Protocol):
    """Builds images, and knows those that it built by their references."""

    name: str

    def build(
        self, root: Path, image: Image, reference: str, *, base_image: str | None, version: str
    ) -> None:
        """Build an image from a checkout; None takes the base that its Dockerfile names."""

    def push(self, reference: str) -> None:
        """Push an image to the registry in its reference."""

    def save(self, reference: str, archive: Path) -> None:
        """Write an image to an archive that containerd imports under the name a node knows."""


class Docker:
    """Docker with BuildKit, which is its default since version 23."""

    name = "docker"

    def build(
        self, root: Path, image: Image, reference: str, *, base_image: str | None, version: str
    ) -> None:
        """Build an image from a checkout."""
        options = _options(image, reference, base_image, version)
        run(["docker", "build", *options, "."], folder=root)

    def push(self, reference: str) -> None:
        """Push an image to the registry in its reference."""
        run(["docker", "push", "--quiet", reference])

    def save(self, reference: str, archive: Path) -> None:
        """Write an image to an archive."""
        run(["docker", "save", "--output", archive, reference])


class Buildah:
    """Buildah without a daemon and without a container runtime."""

    name = "buildah"

    def __init__(self, store: Path | None = None) -> None:
        """Keep images in this folder; None: where the user's other images are."""
        self._words: list[str | Path] = ["buildah"]
        if store is not None:
            # Packages that builds keep for the next one lie with temporary files.
            self._words = ["env", f"TMPDIR={store / 'tmp'}", *self._words]
            self._words += ["--root", store / "root", "--runroot", store / "run"]
            self._words += ["--storage-driver", _driver()]
            (store / "tmp").mkdir(parents=True, exist_ok=True)

    def build(
        self, root: Path, image: Image, reference: str, *, base_image: str | None, version: str
    ) -> None:
        """Build an image from a checkout."""
        options = _options(image, reference, base_image, version)
        how = ("--layers", "--isolation", "chroot", "--network", "host")
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
        """Return whether an image of this name is here."""
        return succeeds([*self._words, "inspect", "--type", "image", reference])

    def run(self, *words: str | Path, folder: Path | None = None) -> str:
        """Run a command of buildah's on this store and return what it prints."""
        return run([*self._words, *words], folder=folder)


def usable_builder(name: str = "auto", store: Path | None = None) -> Docker | Buildah:
    """Return docker where its daemon answers, else buildah with this store.

    `name` docker or buildah takes that one. Raises CommandError where neither is there.
    """
    if name == "docker" or (name == "auto" and succeeds(["docker", "version"])):
        return Docker()
    if name == "buildah" or shutil.which("buildah"):
        return Buildah(store)
    raise CommandError(
        "Images are built by docker or buildah: no Docker daemon answers here and there is no "
        "'buildah'. Install one of them; on Debian: apt-get install buildah."
    )


def _options(
    image: Image, reference: str, base_image: str | None, version: str
) -> Sequence[str | Path]:
    """Return the options that both builders share."""
    arguments = [*image.arguments]
    if base_image is not None:
        arguments.append(f"BASE_IMAGE={base_image}")
    words: list[str | Path] = ["--file", image.dockerfile, "--tag", reference]
    words += ["--label", f"org.opencontainers.image.title={image.name}"]
    words += ["--label", f"org.opencontainers.image.version={version}"]
    for argument in arguments:
        words += ["--build-arg", argument]
    if _CERTIFICATES.exists():
        words += ["--secret", f"id=certificates,src={_CERTIFICATES}"]
    return words


def _local(reference: str) -> str:
    """Return what buildah calls an image that it built without a registry."""
    known = name_in_cluster(reference) == reference
    return reference if known else f"localhost/{reference}"


def _driver() -> str:
    """Overlay needs root (or a helper program); vfs copies every layer, and works everywhere."""
    return "overlay" if os.geteuid() == 0 else "vfs"
