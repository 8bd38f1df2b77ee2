"""The commands behind `make images`, `push`, `kind-load`, `sbom` and `audit`."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images.builder import Builder, CommandError, build_image, run, say, usable_builder
from images.catalogue import IMAGES, LIGHT, ROOT, reference, version
from images.supply_chain import VULNERABILITY_SERVICE, audit, write_bills

_SHORT = [name.removeprefix("inferometer-") for name in IMAGES]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, push or load the images of this checkout; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        match options.action:
            case "sbom":
                write_bills(ROOT, list(_references(options)), ROOT / "dist" / "sbom")
            case "audit":
                return 0 if audit(ROOT, list(_references(options)), options.service) else 1
            case _:
                _use_builder(usable_builder(options.builder), options)
    except UsageError as error:
        say(str(error))
        return 2
    except CommandError as error:
        say(str(error))
        return 1
    return 0


class UsageError(Exception):
    """The command line names something that does not exist, or misses an option."""


def _use_builder(builder: Builder, options: argparse.Namespace) -> None:
    match options.action:
        case "build":
            for name, wanted in _references(options).items():
                build_image(builder, ROOT, name, wanted, options.base_image or None)
        case "push":
            _push(builder, options)
        case _:
            _load_into_kind(builder, options)


def _push(builder: Builder, options: argparse.Namespace) -> None:
    if not options.registry:
        raise UsageError("No registry is set. Run: make push REGISTRY=registry.example.com/team")
    for wanted in _references(options).values():
        say(f"Pushing {wanted} with {builder.name} ...")
        builder.push(wanted)


def _load_into_kind(builder: Builder, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        for wanted in _references(options).values():
            say(f"Loading {wanted} into the kind cluster '{options.kind_cluster}' ...")
            builder.save(wanted, archive)
            run(["kind", "load", "image-archive", archive, "--name", options.kind_cluster])
            archive.unlink()


def _references(options: argparse.Namespace) -> dict[str, str]:
    """Return the references of the selected images, by their names."""
    tag = options.tag or version(ROOT)
    names = [name if name in IMAGES else f"inferometer-{name}" for name in options.names or LIGHT]
    for name in names:
        if name not in IMAGES:
            raise UsageError(f"There is no image '{name}'. Choose from {', '.join(_SHORT)}.")
    return {name: reference(name, registry=options.registry, tag=tag) for name in names}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m images",
        description="Build, push, load, list and audit Inferometer's images.",
    )
    parser.add_argument("action", choices=["build", "push", "kind-load", "sbom", "audit"])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="IMAGE",
        help=f"one of {', '.join(_SHORT)}; default: all but serving-gpu",
    )
    parser.add_argument("--registry", default="", help="registry.example.com/team")
    parser.add_argument("--tag", default="", help="default: the version in pyproject.toml")
    parser.add_argument("--base-image", default="", help="default: the Dockerfile's")
    parser.add_argument("--builder", choices=["auto", "docker", "buildah"], default="auto")
    parser.add_argument("--kind-cluster", default="inferometer")
    parser.add_argument(
        "--service", default=VULNERABILITY_SERVICE, help="of audit (default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
