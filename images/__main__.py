"""What do `make images`, `make push` and `make kind-load` do?"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images.archives import build_and_tell
from images.builder import Buildah, Builder, Docker, usable_builder
from images.catalogue import IMAGES, LIGHT, ROOT, reference, version
from images.commands import CommandError, run, say
from images.debian import debian_base

_DEBOOTSTRAP = "debootstrap"
_SHORT = [name.removeprefix("inferometer-") for name in IMAGES]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line asks with the images of this checkout; return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        builder = usable_builder(asked.builder)
        match asked.action:
            case "build":
                _build(builder, asked)
            case "push":
                _push(builder, asked)
            case _:
                _load_into_kind(builder, asked)
    except RefusedError as error:
        say(str(error))
        return 2
    except CommandError as error:
        say(str(error))
        return 1
    return 0


class RefusedError(Exception):
    """What was asked cannot be done; the text is a sentence."""


def _build(builder: Docker | Buildah, asked: argparse.Namespace) -> None:
    base = asked.base_image or None
    if base == _DEBOOTSTRAP:
        if not isinstance(builder, Buildah):
            raise RefusedError("BASE_IMAGE=debootstrap is for buildah: BUILDER=buildah.")
        base = debian_base(builder, Path(tempfile.gettempdir()))
    for name, wanted in _wanted(asked).items():
        build_and_tell(builder, ROOT, IMAGES[name], wanted, base_image=base)


def _push(builder: Builder, asked: argparse.Namespace) -> None:
    if not asked.registry:
        raise RefusedError("To which registry? make push REGISTRY=registry.example.com/team")
    for wanted in _wanted(asked).values():
        say(f"Pushing {wanted} with {builder.name} ...")
        builder.push(wanted)


def _load_into_kind(builder: Builder, asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        for wanted in _wanted(asked).values():
            say(f"Loading {wanted} into the kind cluster '{asked.kind_cluster}' ...")
            builder.save(wanted, archive)
            run(["kind", "load", "image-archive", archive, "--name", asked.kind_cluster])
            archive.unlink()


def _wanted(asked: argparse.Namespace) -> dict[str, str]:
    """Return the references of the images that are asked for, by their names."""
    tag = asked.tag or version(ROOT)
    names = [name if name in IMAGES else f"inferometer-{name}" for name in asked.names or LIGHT]
    for name in names:
        if name not in IMAGES:
            raise RefusedError(f"There is no image '{name}': choose of {', '.join(_SHORT)}.")
    return {name: reference(name, registry=asked.registry, tag=tag) for name in names}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m images", description="Build, push and load Inferometer's images."
    )
    parser.add_argument("action", choices=["build", "push", "kind-load"])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="IMAGE",
        help=f"of {', '.join(_SHORT)}; default: all but serving-gpu",
    )
    parser.add_argument("--registry", default="", help="registry.example.com/team")
    parser.add_argument("--tag", default="", help="default: the version in pyproject.toml")
    parser.add_argument(
        "--base-image", default="", help="default: the Dockerfile's; 'debootstrap' makes one here"
    )
    parser.add_argument("--builder", choices=["auto", "docker", "buildah"], default="auto")
    parser.add_argument("--kind-cluster", default="inferometer")
    return parser


if __name__ == "__main__":
    sys.exit(main())
