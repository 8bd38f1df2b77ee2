"""What are images called, what are they keyed by, and which commands build them?"""

import json
import os
from pathlib import Path

import pytest
from images.__main__ import main
from images.archives import archives, write_whole
from images.builder import Buildah, Docker, usable_builder
from images.catalogue import IMAGES, Image, copied, fingerprint, name_in_cluster, reference
from images.commands import CommandError, run

SERVING = IMAGES["inferometer-serving"]
GPU = IMAGES["inferometer-serving-gpu"]


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ("", "inferometer-loadgen:1"),
        ("ghcr.io/team", "ghcr.io/team/inferometer-loadgen:1"),
        ("localhost:5000/", "localhost:5000/inferometer-loadgen:1"),
    ],
)
def test_a_reference_has_the_registry_before_it(registry: str, expected: str) -> None:
    """The registry may end with a slash or be absent."""
    assert reference("inferometer-loadgen", registry=registry, tag="1") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("inferometer-loadgen:1", "docker.io/library/inferometer-loadgen:1"),
        ("team/inferometer-loadgen:1", "docker.io/team/inferometer-loadgen:1"),
        ("localhost/inferometer-loadgen:1", "localhost/inferometer-loadgen:1"),
        ("registry:5000/inferometer-loadgen:1", "registry:5000/inferometer-loadgen:1"),
        ("ghcr.io/team/inferometer-loadgen:1", "ghcr.io/team/inferometer-loadgen:1"),
    ],
)
def test_a_node_knows_an_image_by_its_whole_name(given: str, expected: str) -> None:
    """A name without a registry's host is Docker Hub's for every node."""
    assert name_in_cluster(given) == expected


def test_only_what_comes_from_the_context_is_copied() -> None:
    """COPY --from another stage names nothing of the checkout; several sources are all named."""
    text = "COPY a b/c ./\nRUN x\nCOPY --from=build /d /d\nCOPY e e\n"
    assert copied(text) == ("a", "b/c", "e")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a small checkout with one Dockerfile."""
    (tmp_path / "part" / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "part" / "Dockerfile").write_text("FROM x\nCOPY lock ./\nCOPY part/src src\n")
    for name in (".dockerignore", "lock", "part/src/a.py", "part/src/__pycache__/a.pyc", "other"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        ("part/src/a.py", 2),
        ("part/src/new.py", 2),
        ("part/Dockerfile", 2),
        ("lock", 2),
        (".dockerignore", 2),
        ("other", 1),
        ("part/src/__pycache__/a.pyc", 1),
    ],
)
def test_an_image_is_keyed_by_what_it_is_made_from(checkout: Path, changed: str, keys: int) -> None:
    """A change of anything that goes in gives another key, and of nothing else."""
    image = Image("it", "part")
    before = fingerprint(checkout, image, "base")
    with (checkout / changed).open("a") as file:
        file.write("\nRUN more\n")
    assert len({before, fingerprint(checkout, image, "base")}) == keys


def test_base_and_arguments_are_in_the_key(checkout: Path) -> None:
    """The same files on another base, or built otherwise, are another image."""
    keys = {
        fingerprint(checkout, Image("it", "part"), "base"),
        fingerprint(checkout, Image("it", "part"), "another"),
        fingerprint(checkout, Image("it", "part", ("EXTRA=gpu",)), "base"),
        fingerprint(checkout, Image("its-twin", "part"), "base"),
    }
    assert len(keys) == 4


_FAKE = """#!/usr/bin/env python3
import json, os, pathlib, sys
with open(os.environ["HEARD"], "a") as file:
    file.write(json.dumps(sys.argv) + "\\n")
for word in sys.argv:
    if word.startswith("oci-archive:"):
        pathlib.Path(word.split(":")[1]).write_text("archive")
if sys.argv[1] == "save":
    pathlib.Path(sys.argv[3]).write_text("archive")
"""


class Heard:
    """A docker and a buildah that do nothing but remember what was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "heard"
        self.folder = folder
        monkeypatch.setenv("HEARD", str(self.file))
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.install("docker", _FAKE)
        self.install("buildah", _FAKE)

    def install(self, name: str, script: str) -> None:
        """Put a command on the PATH."""
        (self.folder / name).write_text(script)
        (self.folder / name).chmod(0o755)

    @property
    def commands(self) -> list[list[str]]:
        """What was asked, each command without its folder."""
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        return [[Path(words[0]).name, *words[1:]] for words in lines]


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Return what remembers the commands of both builders."""
    return Heard(tmp_path, monkeypatch)


@pytest.mark.parametrize("builder", [Docker(), Buildah()], ids=["docker", "buildah"])
def test_a_build_names_file_tag_base_and_extra(
    heard: Heard, builder: Docker | Buildah, tmp_path: Path
) -> None:
    """Both builders are given the same, and the checkout as context."""
    builder.build(tmp_path, GPU, "team/it:1", base_image="python:3.12", version="0.1.0")
    (words,) = heard.commands
    told = " ".join(words)
    assert "--file serving/Dockerfile --tag team/it:1" in told
    assert "--build-arg EXTRA=gpu --build-arg BASE_IMAGE=python:3.12" in told
    assert "--label org.opencontainers.image.version=0.1.0" in told
    assert words[-1] == "."


def test_without_a_base_the_dockerfile_chooses(heard: Heard, tmp_path: Path) -> None:
    """No argument is passed for a base image that was not asked for."""
    Docker().build(tmp_path, SERVING, "it:1", base_image=None, version="0.1.0")
    assert "--build-arg" not in heard.commands[0]


def test_docker_is_taken_where_its_daemon_answers(heard: Heard) -> None:
    """Buildah is the second choice, unless it is asked for."""
    assert isinstance(usable_builder(), Docker)
    assert isinstance(usable_builder("buildah"), Buildah)
    heard.install("docker", "#!/bin/sh\nexit 1\n")
    assert isinstance(usable_builder(), Buildah)


def test_buildah_saves_under_the_name_of_a_node(heard: Heard, tmp_path: Path) -> None:
    """An image that it knows as localhost's is Docker Hub's in the archive."""
    Buildah().save("it:1", tmp_path / "it.tar")
    assert heard.commands[0][-2:] == [
        "localhost/it:1",
        f"oci-archive:{tmp_path}/it.tar:docker.io/library/it:1",
    ]


def test_a_build_on_command_names_each_image(heard: Heard) -> None:
    """All but the GPU image are built unless names are given, short or whole."""
    assert main(["build", "--registry", "team", "--tag", "2"]) == 0
    assert main(["build", "serving-gpu", "--tag", "2"]) == 0
    tags = [words[words.index("--tag") + 1] for words in heard.commands if words[1] == "build"]
    light = [
        f"team/inferometer-{name}:2" for name in ("operator", "loadgen", "telemetry", "serving")
    ]
    assert tags == [*light, "inferometer-serving-gpu:2"]


def test_an_unknown_image_is_refused(heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence has the names there are, and nothing is built."""
    assert main(["build", "server"]) == 2
    assert "operator, loadgen, telemetry, serving, serving-gpu" in capsys.readouterr().err
    assert not [words for words in heard.commands if words[1] == "build"]


def test_a_push_needs_a_registry(heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is pushed to Docker Hub by mistake."""
    assert main(["push"]) == 2
    assert "make push REGISTRY=" in capsys.readouterr().err
    assert main(["push", "operator", "--registry", "ghcr.io/team", "--tag", "2"]) == 0
    pushed = [words[-1] for words in heard.commands if words[1] == "push"]
    assert pushed == ["ghcr.io/team/inferometer-operator:2"]


def test_kind_is_given_an_archive_of_each(heard: Heard) -> None:
    """Whichever builder made it, an image reaches kind's nodes by an archive."""
    heard.install("kind", _FAKE)
    assert main(["kind-load", "loadgen", "--kind-cluster", "mine"]) == 0
    (loaded,) = [words for words in heard.commands if words[0] == "kind"]
    assert loaded[1:3] == ["load", "image-archive"]
    assert loaded[-2:] == ["--name", "mine"]


def test_archives_are_built_once(heard: Heard, checkout: Path) -> None:
    """What is there already is not built again; what changed is."""
    for path in (checkout / "serving", checkout / "cache"):
        path.mkdir()
    (checkout / "serving" / "Dockerfile").write_text("COPY lock ./\n")
    (checkout / "pyproject.toml").write_text('project.version = "7"\n')

    def built() -> int:
        return sum(words[1] == "build" for words in heard.commands)

    first = archives(checkout, checkout / "cache", [SERVING.name])
    assert archives(checkout, checkout / "cache", [SERVING.name]) == first
    assert built() == 1
    (checkout / "lock").write_text("changed")
    second = archives(checkout, checkout / "cache", [SERVING.name])
    assert built() == 2
    assert second != first
    assert second[0].read_text() == "archive"


def test_what_a_killed_build_left_is_removed(heard: Heard, checkout: Path) -> None:
    """Half a base and half an archive go with the next build."""
    (checkout / "serving").mkdir()
    (checkout / "serving" / "Dockerfile").write_text("COPY lock ./\n")
    (checkout / "pyproject.toml").write_text('project.version = "7"\n')
    folder = checkout / "cache" / "images"
    (folder / "debian-x" / "proc").mkdir(parents=True)
    (folder / ".it.tar.7.partial").write_text("half")
    (archive,) = archives(checkout, checkout / "cache", [SERVING.name])
    assert sorted(folder.iterdir()) == sorted([archive, folder / "lock"])


def test_no_half_archive_is_left(tmp_path: Path) -> None:
    """An archive whose writing fails is not there, in whole or in part."""

    def fail(path: Path) -> None:
        path.write_text("half")
        raise CommandError("full")

    with pytest.raises(CommandError):
        write_whole(tmp_path / "a.tar", fail)
    assert not list(tmp_path.iterdir())


def test_a_failed_command_is_told_with_its_last_lines() -> None:
    """The sentence has the command, its exit code and what it said."""
    with pytest.raises(CommandError, match=r"(?s)ended with 3: sh -c .*no such base"):
        run(["sh", "-c", "echo no such base; exit 3"])


def test_a_command_that_is_missing_is_named() -> None:
    """Nobody has to guess what to install."""
    with pytest.raises(CommandError, match="'no-such-builder' is needed"):
        run(["no-such-builder"])
