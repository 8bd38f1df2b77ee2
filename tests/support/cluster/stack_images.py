"""Images of other projects' servers for the nodes of the tests, and how pods name them."""

import hashlib
import json
import tarfile
from functools import partial
from pathlib import Path

from images.builder import Buildah, CommandError, build_options, say, usable_builder
from images.catalogue import ROOT

from support.cluster.binaries import cache_folder
from support.cluster.debian_base import base_name, debian_base
from support.cluster.images import images_locked, write_atomically

MLSERVER = "inferometer-mlserver:tests"


def mlserver_image() -> Path:
    """Build the image of MLServer unless it exists; return its archive. Raises CommandError.

    Nodes know it as MLSERVER. The first build downloads about 250 MB.
    """
    folder, sources = cache_folder() / "images", ROOT / "images"
    folder.mkdir(parents=True, exist_ok=True)
    dockerfile = sources / "mlserver.Dockerfile"
    content = dockerfile.read_bytes() + (sources / "mlserver.txt").read_bytes()
    key = hashlib.sha256(content + base_name().encode()).hexdigest()[:16]
    archive = folder / f"stack-mlserver-{key}.tar"
    with images_locked(folder):
        if archive.exists():
            return archive
        builder = usable_builder("buildah", store=folder / "store")
        if not isinstance(builder, Buildah):
            raise CommandError("The images of other servers are built with buildah only.")
        say(f"Building {MLSERVER}: a few minutes, once.")
        how = ("--layers", "--isolation", "chroot", "--network", "host")
        base = ("--build-arg", f"BASE_IMAGE={debian_base(builder, folder)}")
        words: tuple[str | Path, ...] = ("--file", dockerfile, "--tag", MLSERVER, *base)
        builder.run("bud", *how, *words, *build_options(), ".", folder=sources)
        write_atomically(archive, partial(builder.save, MLSERVER))
    return archive


def digest_of(archive: Path) -> str:
    """Return the digest of the one image in an OCI archive."""
    with tarfile.open(archive) as files:
        index = files.extractfile("index.json")
        assert index is not None
        (manifest,) = json.load(index)["manifests"]
    return str(manifest["digest"])
