"""The Dockerfile has the properties that the chart and the tests rely on."""

import re

import pytest
from images.catalogue import IMAGES, ROOT

from support.cluster.images import copied

DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROGRAMS = {target: target.removesuffix("-gpu") for target in IMAGES.values()}
STAGES = dict(
    re.findall(
        r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE, flags=re.MULTILINE | re.DOTALL
    )
)


def test_every_image_is_a_target() -> None:
    """Each image of the catalogue is built by a target of the one Dockerfile."""
    assert set(IMAGES.values()) <= set(STAGES)
    assert not list(ROOT.glob("*/Dockerfile"))


def test_the_base_is_an_argument() -> None:
    """Every stage starts from BASE_IMAGE, whose default is the public Python image."""
    bases = set(re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE))
    assert bases <= {"${BASE_IMAGE}", *STAGES}
    assert "ARG BASE_IMAGE=python:3.11-slim-bookworm\n" in DOCKERFILE


def test_the_context_is_what_the_images_copy() -> None:
    """Every copied path exists, and .dockerignore lets through these paths and no others."""
    context = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    paths = {path for target in PROGRAMS for path in copied(DOCKERFILE, target)}
    assert context == paths
    assert not [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("target", PROGRAMS)
def test_an_image_starts_its_program_as_the_user_of_the_pods(target: str) -> None:
    """The entry point is the component, and the user is a number, which `runAsNonRoot` needs."""
    assert f"FROM runtime AS {target}\n" in DOCKERFILE
    assert STAGES["runtime"].endswith("USER 10001:10001\n\n# The operator\n")
    assert not re.findall(r"^(?:USER|RUN)\b", STAGES[target], flags=re.MULTILINE)
    entry = f'ENTRYPOINT ["python3", "-m", "inferometer_{PROGRAMS[target]}"]\n'
    assert entry in STAGES[target]


def test_packages_come_from_the_lock() -> None:
    """Packages come from uv.lock, those of one dependency group for each image."""
    groups = re.findall(r"uv sync --quiet --locked --only-group (\S+)", DOCKERFILE)
    assert len(groups) == DOCKERFILE.count("uv sync") == len(IMAGES)


def test_cache_mounts_lie_outside_the_builders_store() -> None:
    """Buildah 1.28 empties an image if a mount point is a parent of its own store."""
    assert set(re.findall(r"type=cache,target=([^ ,]+)", DOCKERFILE)) == {"/build-cache"}
