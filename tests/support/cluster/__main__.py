"""The commands behind `make cluster-up` and `make cluster-down`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from images.builder import CommandError

from support.cluster import background, binaries, homes, kind
from support.cluster.availability import why_no_nodes
from support.cluster.images import images
from support.cluster.messages import say
from support.cluster.pins import API, NODES, TOOLS, VERIFY_TOOLS

_REFUSED = 2
_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code, 2 if it cannot be done here."""
    options = _parser().parse_args(arguments)
    try:
        match options.action:
            case "build":
                return _build("verify" in options.words)
            case "up":
                return _up(options.name, options.nodes, without_images=options.no_images)
            case "down":
                return _down(options.name)
            case "status":
                return _status()
            case _:
                background.serve(
                    options.name, options.nodes, [Path(word) for word in options.words]
                )
    except RuntimeError as error:
        say(str(error))
        return _FAILED


def _build(for_verify: bool) -> int:  # noqa: FBT001 - the one thing that differs
    """Build what the gate needs, or also what `make verify` needs."""
    nodes = API if why_no_nodes() else NODES
    binaries.ensure((*nodes, *TOOLS, *(VERIFY_TOOLS if for_verify else ())))
    return 0


def _up(name: str, nodes: int, *, without_images: bool) -> int:
    if kind.docker_works():
        kubeconfig = kind.up(name, nodes, [] if without_images else _images())
    else:
        why_not = why_no_nodes()
        if why_not is not None:
            say(f"No cluster can be started: Docker does not answer here. {why_not}")
            return _REFUSED
        binaries.ensure(NODES)
        kubeconfig = background.up(name, nodes, [] if without_images else _images())
    say(f"The cluster {name!r} is up. To use it, with its kubectl and helm:")
    sys.stdout.write(
        f"export KUBECONFIG={kubeconfig}\nexport PATH={binaries.path_folder()}:$PATH\n"
    )
    return 0


def _down(name: str) -> int:
    if background.down(name):
        say(
            f"The cluster {name!r} is down: no process, mount, network interface, control group"
            " or folder of it is left."
        )
    elif kind.docker_works() and kind.exists(name):
        kind.down(name)
        say(f"The cluster {name!r} is down: kind has deleted it.")
    else:
        say(f"There is no cluster called {name!r}.")
    return 0


def _status() -> int:
    for name in homes.names():
        process = homes.holder(name)
        state = "left behind by a killed process" if process is None else f"up (process {process})"
        sys.stdout.write(f"{name}: {state}, KUBECONFIG={background.kubeconfig(name)}\n")
    if kind.docker_works() and kind.exists("local"):
        sys.stdout.write("local: up in kind\n")
    return 0


def _images() -> list[Path]:
    """Return the archives of the project's images; none, and why, where they cannot be made."""
    try:
        return images()
    except CommandError as error:
        say(f"The cluster starts without Inferometer's images: {error}")
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m support.cluster", description="A local Kubernetes for Inferometer."
    )
    parser.add_argument("action", choices=["build", "up", "down", "status", "serve"])
    parser.add_argument("words", nargs="*", help="gate or verify, for build; images, for serve")
    parser.add_argument("--name", default="local", help="the cluster's name (default: local)")
    parser.add_argument("--nodes", type=int, default=1, choices=range(1, 10), metavar="1..9")
    parser.add_argument("--no-images", action="store_true", help="import none of the images")
    return parser


if __name__ == "__main__":
    sys.exit(main())
