"""Decision which images of a node may be removed. Pure."""

from collections.abc import Iterable, Sequence

from inferometer_telemetry.images.cri_client import ImageUse, NodeImage

_HUB = "docker.io"


class RemovalRefusedError(Exception):
    """An image must stay; the message is a sentence."""

    def __init__(self, message: str, *, in_use: bool) -> None:
        super().__init__(message)
        self.in_use = in_use
        """Whether a pod uses it: later it may be removed."""


def repository_of(image: str) -> str:
    """Return the repository of an image with its registry, as the runtime names it.

    Without a registry, an image belongs to Docker Hub.
    """
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    name = f"{head}{slash}{last.partition(':')[0]}"
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"{_HUB}/{name}" if slash else f"{_HUB}/library/{name}"


def find_removable(
    requested: Sequence[str],
    allowed: Iterable[str],
    images: Iterable[NodeImage],
    uses: Iterable[ImageUse],
) -> dict[str, NodeImage]:
    """Return the images to remove, by the requested name; those that are not there are left out.

    `allowed` are repositories. Raises RemovalRefusedError if a requested image is of no allowed
    repository, or a pod uses it.
    """
    ours = {repository_of(each) for each in allowed}
    for name in requested:
        if repository_of(name) not in ours:
            raise RemovalRefusedError(
                f"{name} is none of the images that may be removed ({', '.join(sorted(ours))}: "
                "coldStart.repositories of the chart inferometer-agent).",
                in_use=False,
            )
    there = list(images)
    found = {name: image for name in requested for image in there if _is_named(image, name)}
    for use in uses:
        for name, image in found.items():
            if use.images & {image.id, name, _full_name(name), *image.names}:
                raise RemovalRefusedError(f"The pod {use.pod} uses {name}.", in_use=True)
    return found


def _is_named(image: NodeImage, name: str) -> bool:
    return _full_name(name) in image.names


def _full_name(name: str) -> str:
    """Return a name with its registry, and with the tag that stands for none."""
    image, at, digest = name.partition("@")
    if at:
        return f"{repository_of(image)}@{digest}"
    tag = image.rpartition("/")[2].partition(":")[2] or "latest"
    return f"{repository_of(image)}:{tag}"
