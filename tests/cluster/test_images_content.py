"""The images contain everything that pods need, and no build tools."""

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from images.catalogue import ROOT, version

from support.cluster.images import images
from support.requirements import cannot_run
from support.unpacked_image import UnpackedImage

_IMPORT_ALL = """
import importlib, json, os, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
    # Programs run in the servers of other projects; Alembic runs `env` with a connection.
    if ".programs." not in each.name and not each.name.endswith(".migrations.env"):
        importlib.import_module(each.name)
files = [getattr(module, "__cached__", None) for module in sys.modules.values()]
print(json.dumps([file for file in files if file and not os.path.exists(file)]))
"""
_INSTALLED = """
import importlib.metadata, json
print(json.dumps({each.name.lower(): each.version for each in importlib.metadata.distributions()}))
"""
_UNEXPECTED = {"pip", "uv", "setuptools", "wheel", "hatchling", "typer", "rich", "pytest", "mypy"}


@pytest.fixture(scope="module", params=["operator", "loadgen", "serving", "telemetry", "results"])
def component(request: pytest.FixtureRequest) -> str:
    """Return each component that has an image."""
    return str(request.param)


@pytest.fixture(scope="module")
def image(
    component: str, nodes_can_run: None, tmp_path_factory: pytest.TempPathFactory
) -> UnpackedImage:
    """Return the image of a component, built if it is stale."""
    if not shutil.which("zstd"):
        cannot_run("tar unpacks the images' layers with zstd, which is not installed here")
    (archive,) = images([f"inferometer-{component}"])
    return UnpackedImage(archive, tmp_path_factory.mktemp(component))


def files_of(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder that is no link."""
    return (each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def test_it_runs_as_another_user(image: UnpackedImage, component: str) -> None:
    """User, entry point and labels match the Dockerfile and the checkout."""
    assert image.description["User"] == "10001:10001"
    assert image.description["Entrypoint"] == ["python3", "-m", f"inferometer_{component}"]
    labels = image.description["Labels"]
    assert labels["org.opencontainers.image.version"] == version(ROOT)
    assert labels["org.opencontainers.image.title"] == f"inferometer-{component}"


def test_nothing_in_it_raises_rights(image: UnpackedImage) -> None:
    """No file is set-user-id or set-group-id."""
    raising = stat.S_ISUID | stat.S_ISGID
    assert not [each for each in files_of(image.root) if each.stat().st_mode & raising]


def test_its_user_owns_nothing(image: UnpackedImage) -> None:
    """The process could not change its own program, even with a writable root."""
    ours = image.root / "opt"
    writable = stat.S_IWGRP | stat.S_IWOTH
    stats = {str(each): each.stat() for each in files_of(ours)}
    assert stats
    open_to_all = [each for each, of in stats.items() if of.st_uid != 0 or of.st_mode & writable]
    assert open_to_all == []


def test_it_has_no_build_tools(image: UnpackedImage) -> None:
    """It has no installers, no compilers, and no packages of other components."""
    installed = json.loads(image.run("python3", "-c", _INSTALLED))
    assert installed["inferometer"] == version(ROOT)
    assert not _UNEXPECTED & installed.keys()
    assert not [name for name in ("gcc", "git") if (image.root / "usr/bin" / name).exists()]


def test_every_module_imports_from_bytecode(image: UnpackedImage, component: str) -> None:
    """Every module imports with the image's packages, without being compiled again."""
    for each in {"serving": ("serving", "fetch")}.get(component, (component,)):
        uncompiled = image.run("python3", "-c", _IMPORT_ALL, f"inferometer_{each}")
        assert json.loads(uncompiled) == []


def test_its_entry_point_starts(image: UnpackedImage) -> None:
    """The entry point prints its help."""
    printed = image.run(*image.description["Entrypoint"], "--help")
    assert printed.startswith("usage: ")


def test_its_modules_import_as_any_user(image: UnpackedImage, component: str) -> None:
    """A user without a name, in group 0, as OpenShift assigns one, can run the program."""
    user = "1000730000:0"
    printed = image.run(*image.description["Entrypoint"], "--help", user=user)
    assert printed.startswith("usage: ")
    for each in {"serving": ("serving", "fetch")}.get(component, (component,)):
        imported = image.run("python3", "-c", _IMPORT_ALL, f"inferometer_{each}", user=user)
        assert json.loads(imported) == []


@pytest.mark.parametrize("component", ["serving"], scope="module")
def test_the_server_brings_the_zoo(image: UnpackedImage) -> None:
    """The fetcher writes a zoo model to the one writable folder, without a network."""
    fetcher = ("python3", "-m", "inferometer_fetch")
    uri = "zoo://classification/resnet50"
    fetched = image.run(*fetcher, "--uri", uri, "--destination", "/tmp/model")  # noqa: S108 - a tmpfs of its own
    assert json.loads(fetched)["name"] == "resnet50"


@pytest.mark.parametrize("component", ["serving", "loadgen"], scope="module")
def test_it_has_what_the_steps_of_manifests_need(image: UnpackedImage) -> None:
    """Each library decodes a JPEG; tokenizers loads without packages that are left out."""
    code = """
import io
from PIL import Image
from tokenizers import Tokenizer
from inferometer_api.manifest.input_steps import Decode
from inferometer_tasks.steps.image import decode
file = io.BytesIO()
Image.new("RGB", (8, 8)).save(file, "JPEG")
for library in ("Pillow", "SimpleJpeg"):
    print(decode(Decode(library=library), file.getvalue()).shape)
"""
    assert image.run("python3", "-c", code).split("\n")[:2] == ["(8, 8, 3)"] * 2


@pytest.mark.parametrize("component", ["loadgen"], scope="module")
def test_the_load_generator_reports_its_packages(image: UnpackedImage) -> None:
    """The image names the versions that a result reports."""
    code = "import inferometer_loadgen.client.node as n, json; print(json.dumps(n.packages()))"
    found = json.loads(image.run("python3", "-c", code))
    assert {"python", "inferometer", "hdrhistogram", "numpy", "tritonclient", "uvloop"} <= set(
        found
    )
