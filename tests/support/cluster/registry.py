"""A registry of one image in the network of a node, at the far end of a slow network."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.cluster.binaries import binary
from support.cluster.node import Node
from support.cluster.processes import Group
from support.cluster.switch import network_of
from support.waiting import wait_until

REGISTRY = "localhost:5000"
"""Containerd speaks plain HTTP with localhost."""
_CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:5000"}}
"""
_BURST = "256kb"
"""A token bucket must hold the largest packet of a loopback device: 64 KiB."""
_QUEUE = "64mb"
"""More than all connections have under way, so that no packet is dropped."""


@contextmanager
def throttled_registry(
    node: Node, group: Group, image: str, bytes_per_second: int
) -> Iterator[int]:
    """Have a registry with an image of a node, which it sends at this rate at most.

    Yields the size of the image's blobs.
    """
    with tempfile.TemporaryDirectory(dir=node.folder) as folder, ExitStack() as stack:
        configuration = Path(folder) / "registry.yaml"
        configuration.write_text(_CONFIGURATION.format(folder=folder))
        process = group.start(
            f"{node.name}-registry",
            [
                *network_of(node.pid),
                *("env", "OTEL_TRACES_EXPORTER=none", binary("registry")),
                *("serve", configuration),
            ],
        )
        stack.callback(process.kill)
        wait_until(lambda: "listening on" in process.tail(), "the registry", [process])
        node.push_image(image, f"{REGISTRY}/{image}")
        rate = ("rate", f"{bytes_per_second}bps")
        _tc(node, "add", "tbf", *rate, "burst", _BURST, "limit", _QUEUE)
        stack.callback(_tc, node, "delete")
        yield sum(each.stat().st_size for each in Path(folder).glob("**/blobs/**/data"))


def _tc(node: Node, action: str, *discipline: str) -> None:
    """Change how the loopback device of a node queues packets."""
    words = ["tc", "qdisc", action, "dev", "lo", "root", *discipline]
    done = subprocess.run(
        [*network_of(node.pid), *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} on {node.name}: {done.stderr.strip()}")
