"""Do the Dockerfiles keep what the chart and the tests count on?"""

import re
from pathlib import Path

import pytest
from images.catalogue import IMAGES, ROOT, copied

COMPONENTS = ("operator", "loadgen", "serving", "telemetry")
PATHS = {component: ROOT / component / "Dockerfile" for component in COMPONENTS}
OWN = r"#|ARG EXTRA=|COPY \S+/src |LABEL |ENTRYPOINT "
"""What begins a line that a component has for itself."""


@pytest.fixture(params=COMPONENTS)
def component(request: pytest.FixtureRequest) -> str:
    """Return each component that has an image."""
    return str(request.param)


@pytest.fixture
def dockerfile(component: str) -> str:
    """Return the text of a component's Dockerfile."""
    return PATHS[component].read_text()


def test_every_image_has_its_dockerfile() -> None:
    """The images of the catalogue are those of the Dockerfiles, one file for both servers."""
    assert {image.component for image in IMAGES.values()} == set(COMPONENTS)
    assert sorted(ROOT.glob("*/Dockerfile")) == sorted(PATHS.values())


def test_the_base_is_an_argument(dockerfile: str) -> None:
    """Every stage begins from BASE_IMAGE, whose default is the public Python image."""
    bases = re.findall(r"^FROM (\S+)", dockerfile, flags=re.MULTILINE)
    assert bases == ["${BASE_IMAGE}"] * 2
    assert "ARG BASE_IMAGE=python:3.11-slim-bookworm\n" in dockerfile


def test_what_is_copied_exists(dockerfile: str) -> None:
    """Every path that is copied is in the checkout, and .dockerignore lets it through."""
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    for path in copied(dockerfile):
        assert (ROOT / path).exists()
        assert path in let_through


def test_nothing_else_is_sent(dockerfile: str) -> None:
    """What .dockerignore lets through is copied by one of the Dockerfiles."""
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    assert let_through == {path for each in PATHS.values() for path in copied(each.read_text())}


def test_the_user_is_a_number(dockerfile: str) -> None:
    """The last USER is the one of the pods, by number: `runAsNonRoot` can then be checked."""
    users = re.findall(r"^USER (.+)$", dockerfile, flags=re.MULTILINE)
    assert users == ["10001:10001"]
    assert "RUN" not in dockerfile.rpartition("\nUSER ")[2]


def test_it_starts_its_component(component: str, dockerfile: str) -> None:
    """The entry point is the component's process, with python3 of the PATH."""
    assert f'ENTRYPOINT ["python3", "-m", "inferometer_{component}"]\n' in dockerfile


def test_it_installs_by_the_lock_of_uv(dockerfile: str) -> None:
    """Packages come from uv.lock, by the version of uv that the Makefile has."""
    (version,) = re.findall(
        r"^UV_VERSION := (\S+)$", Path(ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert f"ARG UV_VERSION={version}\n" in dockerfile
    assert "uv sync --quiet --locked" in dockerfile


def test_no_cache_lies_where_builders_keep_images(dockerfile: str) -> None:
    """Buildah 1.28 empties an image whose mount point is a folder that its own store lies below."""
    targets = set(re.findall(r"type=cache,target=([^ ,]+)", dockerfile))
    assert targets == {"/build-cache"}


def test_the_dockerfiles_are_alike() -> None:
    """What they share is the same in each: a mend of one is not forgotten in the others."""

    def shared(component: str) -> list[str]:
        text = PATHS[component].read_text().replace("\\\n", " ")
        # What follows the packages' group is a component's own trimming.
        text = re.sub(r"(--only-group) image-.*$", r"\1", text, flags=re.MULTILINE)
        return [re.sub(r"\s+", " ", line) for line in text.splitlines() if not re.match(OWN, line)]

    first, *others = map(shared, COMPONENTS)
    assert all(each == first for each in others)
