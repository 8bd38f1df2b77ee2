"""Names of images: which repository an image belongs to, and which image a name means."""

import pytest

from inferometer_telemetry.images.cri_client import ImageUse, NodeImage
from inferometer_telemetry.images.removal import (
    RemovalRefusedError,
    find_removable,
    repository_of,
)

_DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("inferometer-serving:0.1.0", "docker.io/library/inferometer-serving"),
        ("team/inferometer-serving", "docker.io/team/inferometer-serving"),
        ("localhost:5000/inferometer-serving:1", "localhost:5000/inferometer-serving"),
        ("r.example/a/inferometer-serving", "r.example/a/inferometer-serving"),
        (f"r.example:5000/serving@{_DIGEST}", "r.example:5000/serving"),
    ],
)
def test_the_repository_of_an_image_has_its_registry(image: str, repository: str) -> None:
    """A port of the registry is no tag, and Docker Hub is the default."""
    assert repository_of(image) == repository


def test_an_image_is_found_by_tag_and_by_digest() -> None:
    """As the runtime names it."""
    image = NodeImage("sha256:1", frozenset({"r.example/s:1", f"r.example/s@{_DIGEST}"}))
    for name in ("r.example/s:1", f"r.example/s@{_DIGEST}"):
        assert find_removable([name], ["r.example/s"], [image], []) == {name: image}
    assert find_removable(["r.example/s:2"], ["r.example/s"], [image], []) == {}


def test_an_image_is_in_use_by_any_of_its_names() -> None:
    """A pod may name it by a tag that the request does not have."""
    image = NodeImage("sha256:1", frozenset({"r.example/s:1", "r.example/s:stable"}))
    use = ImageUse("team/pod", frozenset({"r.example/s:stable"}))
    with pytest.raises(RemovalRefusedError, match=r"The pod team/pod uses r\.example/s:1"):
        find_removable(["r.example/s:1"], ["r.example/s"], [image], [use])
