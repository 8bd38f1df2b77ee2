"""Which images do the nodes of the tests get? Those that the project's Dockerfiles make."""

from pathlib import Path

from images.archives import archives
from images.catalogue import ROOT

from support.cluster.binaries import cache_folder


def images() -> list[Path]:
    """Build what is stale of this checkout's images and return an OCI archive of each.

    Nodes know them as inferometer-operator, -loadgen, -telemetry and -serving with the version as
    tag: what the charts ask for when no value is set. Raises CommandError.
    """
    return archives(ROOT, cache_folder())
