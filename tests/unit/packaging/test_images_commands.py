"""The images: their names, the keys of their archives, and the commands that build them."""

import json
import os
from pathlib import Path

import pytest
from images.__main__ import main
from images.builder import Buildah, CommandError, Docker, run, usable_builder
from images.catalogue import name_in_cluster, reference

from support.cluster.images import archives, copied, fingerprint, write_atomically

SERVING = "inferometer-serving"
GPU = "inferometer-serving-gpu"
DIGEST = f"sha256:{32 * '12'}"
DOCKERFILE = """\
FROM x AS shared
COPY lock ./
FROM shared AS serving
COPY part/src src
FROM shared AS serving-gpu
COPY other ./
"""


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ("", "inferometer-loadgen:1"),
        ("ghcr.io/team", "ghcr.io/team/inferometer-loadgen:1"),
        ("localhost:5000/", "localhost:5000/inferometer-loadgen:1"),
    ],
)
def test_a_reference_starts_with_the_registry(registry: str, expected: str) -> None:
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
def test_a_node_uses_the_full_name(given: str, expected: str) -> None:
    """A name without a registry's host belongs to Docker Hub."""
    assert name_in_cluster(given) == expected


def test_the_copied_paths_of_a_target_are_found() -> None:
    """A target copies what its own stage, its bases and the stages it copies from name."""
    text = (
        "FROM x AS base\nCOPY a b/c ./\nRUN x\nFROM base AS build\nCOPY d e\nFROM x AS other\n"
        "COPY f ./\nFROM base AS end\nCOPY --from=build /d /d\nCOPY g g\n"
    )
    assert copied(text, "end") == ("a", "b/c", "d", "g")
    assert copied(text, "other") == ("f",)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a small checkout."""
    (tmp_path / "part" / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "pyproject.toml").write_text('project.version = "7"\n')
    for name in (".dockerignore", "lock", "part/src/a.py", "part/src/__pycache__/a.pyc", "other"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        ("part/src/a.py", 2),
        ("part/src/new.py", 2),
        ("Dockerfile", 2),
        ("lock", 2),
        (".dockerignore", 2),
        ("other", 1),
        ("part/src/__pycache__/a.pyc", 1),
    ],
)
def test_the_key_of_an_image_covers_its_ingredients(
    checkout: Path, changed: str, keys: int
) -> None:
    """A change of an ingredient changes the key; a change of another file does not."""
    before = fingerprint(checkout, SERVING, "base")
    with (checkout / changed).open("a") as file:
        file.write("\nRUN more\n")
    assert len({before, fingerprint(checkout, SERVING, "base")}) == keys


def test_base_and_name_are_in_the_key(checkout: Path) -> None:
    """The same files on another base, or under another name, are another image."""
    keys = {
        fingerprint(checkout, SERVING, "base"),
        fingerprint(checkout, SERVING, "another"),
        fingerprint(checkout, GPU, "base"),
    }
    assert len(keys) == 3


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


class CommandRecorder:
    """A docker and a buildah that only record their arguments."""

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
        """The recorded commands, each without its folder."""
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        return [[Path(words[0]).name, *words[1:]] for words in lines]


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandRecorder:
    """Return a recorder of the commands of both builders."""
    return CommandRecorder(tmp_path, monkeypatch)


@pytest.mark.parametrize("builder", [Docker(), Buildah()], ids=["docker", "buildah"])
def test_a_build_names_target_tag_and_base(
    recorder: CommandRecorder, builder: Docker | Buildah, checkout: Path
) -> None:
    """Both builders get the same options, and the checkout as context."""
    builder.build(checkout, GPU, "team/it:1", f"python:3.12@{DIGEST}")
    (words,) = recorder.commands
    command = " ".join(words)
    assert "--target serving-gpu --tag team/it:1" in command
    assert f"--build-arg BASE_IMAGE=python:3.12@{DIGEST} " in command
    assert "--label org.opencontainers.image.title=inferometer-serving-gpu" in command
    assert "--label org.opencontainers.image.version=7" in command
    assert words[-1] == "."


def test_the_dockerfile_chooses_the_base_by_default(
    recorder: CommandRecorder, checkout: Path
) -> None:
    """Without a base image in the options, no build argument is passed."""
    Docker().build(checkout, SERVING, "it:1", None)
    assert "--build-arg" not in recorder.commands[0]


def test_docker_is_used_if_its_daemon_answers(recorder: CommandRecorder) -> None:
    """Buildah is the second choice, unless it is selected."""
    assert isinstance(usable_builder(), Docker)
    assert isinstance(usable_builder("buildah"), Buildah)
    recorder.install("docker", "#!/bin/sh\nexit 1\n")
    assert isinstance(usable_builder(), Buildah)


def test_buildah_saves_under_the_name_of_a_node(recorder: CommandRecorder, tmp_path: Path) -> None:
    """An image that buildah stores under localhost belongs to Docker Hub in the archive."""
    Buildah().save("it:1", tmp_path / "it.tar")
    assert recorder.commands[0][-2:] == [
        "localhost/it:1",
        f"oci-archive:{tmp_path}/it.tar:docker.io/library/it:1",
    ]


def test_the_light_images_are_built_by_default(recorder: CommandRecorder) -> None:
    """All images but the GPU one are built by default; names select others."""
    assert main(["build", "--registry", "team", "--tag", "2"]) == 0
    assert main(["build", "serving-gpu", "--tag", "2"]) == 0
    tags = [words[words.index("--tag") + 1] for words in recorder.commands if words[1] == "build"]
    light = [
        f"team/inferometer-{name}:2"
        for name in ("operator", "loadgen", "telemetry", "results", "serving")
    ]
    assert tags == [*light, "inferometer-serving-gpu:2"]


def test_an_unknown_image_is_refused(
    recorder: CommandRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message lists the images, and nothing is built."""
    assert main(["build", "server"]) == 2
    assert "operator, loadgen, telemetry, results, serving, serving-gpu" in capsys.readouterr().err
    assert not [words for words in recorder.commands if words[1] == "build"]


def test_a_push_needs_a_registry(
    recorder: CommandRecorder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a registry, nothing is pushed to Docker Hub by mistake."""
    assert main(["push"]) == 2
    assert "make push REGISTRY=" in capsys.readouterr().err
    assert main(["push", "operator", "--registry", "ghcr.io/team", "--tag", "2"]) == 0
    pushed = [words[-1] for words in recorder.commands if words[1] == "push"]
    assert pushed == ["ghcr.io/team/inferometer-operator:2"]


def test_kind_is_given_an_archive_of_each(recorder: CommandRecorder) -> None:
    """An image of either builder reaches kind's nodes in an archive."""
    recorder.install("kind", _FAKE)
    assert main(["kind-load", "loadgen", "--kind-cluster", "mine"]) == 0
    (loaded,) = [words for words in recorder.commands if words[0] == "kind"]
    assert loaded[1:3] == ["load", "image-archive"]
    assert loaded[-2:] == ["--name", "mine"]


def test_archives_are_built_once(recorder: CommandRecorder, checkout: Path) -> None:
    """An image is built again only after a change."""

    def built() -> int:
        return sum(words[1] == "build" for words in recorder.commands)

    first = archives(checkout, checkout / "cache", [SERVING])
    assert archives(checkout, checkout / "cache", [SERVING]) == first
    assert built() == 1
    (checkout / "lock").write_text("changed")
    second = archives(checkout, checkout / "cache", [SERVING])
    assert built() == 2
    assert second != first
    assert second[0].read_text() == "archive"


def test_leftovers_of_a_killed_build_are_removed(recorder: CommandRecorder, checkout: Path) -> None:
    """The next build removes half a base and half an archive."""
    folder = checkout / "cache" / "images"
    (folder / "debian-x" / "proc").mkdir(parents=True)
    (folder / ".it.tar.7.partial").write_text("half")
    (archive,) = archives(checkout, checkout / "cache", [SERVING])
    assert sorted(folder.iterdir()) == sorted([archive, folder / "lock"])


def test_no_half_archive_is_left(tmp_path: Path) -> None:
    """If writing an archive fails, no file is left."""

    def fail(path: Path) -> None:
        path.write_text("half")
        raise CommandError("full")

    with pytest.raises(CommandError):
        write_atomically(tmp_path / "a.tar", fail)
    assert not list(tmp_path.iterdir())


def test_the_error_of_a_command_has_its_last_lines() -> None:
    """The message contains the command, its exit code and its output."""
    with pytest.raises(CommandError, match=r"(?s)exited with 3: sh -c .*no such base"):
        run(["sh", "-c", "echo no such base; exit 3"])


def test_a_missing_command_is_named() -> None:
    """The message names the command to install."""
    with pytest.raises(CommandError, match="'no-such-builder' is not installed"):
        run(["no-such-builder"])
