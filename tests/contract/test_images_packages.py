"""Each image has the packages that its component imports, and no others."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from images.catalogue import ROOT

from support.cluster.images import copied

OURS = {
    path.name: path for path in ROOT.glob("*/src/inferometer_*") if (path / "__init__.py").exists()
}
IMAGES = {
    "image-operator": "operator",
    "image-loadgen": "loadgen",
    "image-telemetry": "telemetry",
    "image-results": "results",
    "image-serving-cpu": "serving",
    "image-serving-gpu": "serving",
}
_OF_SERVERS = frozenset({"mlserver", "triton_python_backend_utils"})
"""What programs import that other projects' servers run."""
ABSENT = {
    "image-results": frozenset({"pyarrow"}),
    "image-serving-cpu": _OF_SERVERS | {"cuda", "cupti"},
    "image-serving-gpu": _OF_SERVERS | {"openvino"},
}
"""What an image does without, although a module for another image or a command imports it."""
PROGRAMS = {"serving": ("serving", "fetch")}
"""Components whose programs one image holds, if these are more than the image's own."""
BROUGHT_BY = {
    "cuda-bindings": "cuda",
    "cupti-python": "cupti",
    "flask": "locust",
    "gevent": "locust",
    "markupsafe": "jinja2",
    "onnxruntime-gpu": "onnxruntime",
    "pydantic-core": "pydantic",
    "psycopg": "sqlalchemy",
    "pyzmq": "locust",
    "starlette": "fastapi",
    "tzdata": "cronsim",
}
"""Names that come with another's, or stand for it."""


@cache
def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def plain(requirement: str) -> str:
    """Return the normal name of a requirement: "tritonclient" for "tritonclient[grpc]>=2"."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group, those of included groups too."""
    found: list[str] = []
    for each in project()["dependency-groups"][name]:
        found += group(each["include-group"]) if isinstance(each, dict) else [each]
    return found


def imported_names(path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports at any place but under TYPE_CHECKING."""
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_file(name: str) -> Path | None:
    """Return the file of one of our modules; None for a name that is none."""
    top, _, rest = name.partition(".")
    path = OURS[top].joinpath(*rest.split(".")) if rest else OURS[top]
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.exists():
            return file
    return None


def reached(component: str) -> tuple[set[str], set[str]]:
    """Return our packages and the top names of others that an image's programs import."""
    folders = [OURS[f"inferometer_{each}"] for each in PROGRAMS.get(component, (component,))]
    waiting = [
        ".".join((folder.name, *path.relative_to(folder).with_suffix("").parts))
        for folder in folders
        for path in folder.rglob("*.py")
    ]
    seen: set[str] = set()
    others: set[str] = set()
    while waiting:
        name = waiting.pop().removesuffix(".__init__")
        file = module_file(name)
        if name in seen or file is None:
            continue
        seen.add(name)
        waiting.append(name.rpartition(".")[0] or name)
        for each in imported_names(file):
            top = each.partition(".")[0]
            if top in OURS:
                waiting.append(each)
            elif top not in sys.stdlib_module_names:
                others.add(top)
    return {name.partition(".")[0] for name in seen}, others


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_what_its_component_imports(name: str) -> None:
    """Each import is of a package of the image's group, and each package of the group imported."""
    held = {BROUGHT_BY.get(each, each) for each in map(plain, group(name))}
    known = packages_distributions()
    used = set()
    for top in reached(IMAGES[name])[1] - ABSENT.get(name, frozenset()):
        makers = {plain(each) for each in known.get(top, [top])}
        makers = {BROUGHT_BY.get(each, each) for each in makers}
        assert makers & held, f"{top} is imported and the group {name} of pyproject.toml lacks it"
        used |= makers & held
    assert held == used, f"the group {name} of pyproject.toml has what nothing imports"


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_no_package_of_its_own(name: str) -> None:
    """What an image has, an installation has too, in the version that was locked for both."""
    depends = project()["project"]["dependencies"]
    extras = project()["project"]["optional-dependencies"]
    optional = (each for name in extras for each in extras[name])
    everything = {plain(each) for each in (*depends, *optional)}
    assert {plain(each) for each in group(name)} <= everything
    assert not [each for each in group(name) if re.search(r"[<>=~!]", each)]


@pytest.mark.parametrize("component", ["operator", "loadgen", "serving", "telemetry", "results"])
def test_an_image_has_the_sources_that_its_component_reaches(component: str) -> None:
    """Our own packages that the component's modules lead to are copied, and no others."""
    paths = copied((ROOT / "Dockerfile").read_text(), component)
    sources = {path for path in paths if path.endswith("/src")}
    ours = reached(component)[0]
    assert sources == {str(OURS[name].parent.relative_to(ROOT)) for name in ours}


def test_the_chart_states_the_engines_of_its_images() -> None:
    """The operator resolves manifests over them: they are those that the images install."""
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    versions = {each["name"]: each.get("version") for each in locked}
    pinned = re.search(
        r"^onnxruntime==(\S+)", (ROOT / "images/mlserver.txt").read_text(), re.MULTILINE
    )
    assert pinned
    stated = yaml.safe_load((ROOT / "helm/inferometer/files/engines.yaml").read_text())
    assert stated == {
        "serving": {name: versions[name] for name in ("onnxruntime", "openvino")},
        "servingGpu": {"onnxruntime": versions["onnxruntime-gpu"]},
        "mlserver": {"onnxruntime": pinned[1]},
        "triton": {"onnxruntime": "1.19.2", "openvino": "2024.4.0"},  # as its build.py pins them
    }
