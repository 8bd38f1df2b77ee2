"""Which images are there, what goes into each, and what is it called?"""

import hashlib
import platform
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Image:
    """One image: a component's Dockerfile with its arguments."""

    name: str
    component: str
    """The folder of its Dockerfile."""
    arguments: tuple[str, ...] = ()
    """As --build-arg takes them: "NAME=VALUE"."""

    @property
    def dockerfile(self) -> Path:
        """Its Dockerfile; the build's context is the checkout."""
        return Path(self.component) / "Dockerfile"


IMAGES = {
    image.name: image
    for image in (
        Image("inferometer-operator", "operator"),
        Image("inferometer-loadgen", "loadgen"),
        Image("inferometer-telemetry", "telemetry"),
        Image("inferometer-serving", "serving"),
        Image("inferometer-serving-gpu", "serving", ("EXTRA=gpu",)),
    )
}
LIGHT = tuple(name for name in IMAGES if not name.endswith("-gpu"))
"""What is built unless names are given: CUDA's libraries are gigabytes."""


def version(root: Path) -> str:
    """Return the version that a checkout makes: the tag of its images where none is given."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def reference(name: str, *, registry: str, tag: str) -> str:
    """Return what people call an image: "registry.example.com/team/inferometer-loadgen:0.1.0"."""
    return f"{registry.rstrip('/')}/{name}:{tag}" if registry else f"{name}:{tag}"


def name_in_cluster(image_reference: str) -> str:
    """Return what a node calls an image: one without a registry is Docker Hub's, by old custom."""
    first, slash, _ = image_reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image_reference
    return f"docker.io/{image_reference}" if slash else f"docker.io/library/{image_reference}"


def copied(dockerfile: str) -> tuple[str, ...]:
    """Return the paths that the text of a Dockerfile copies from its context."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", dockerfile, flags=re.MULTILINE)
    return tuple(path for line in lines for path in line.split()[:-1])


def fingerprint(root: Path, image: Image, base_image: str) -> str:
    """Return a short hash of all that an image is made from: files, arguments, base, machine."""
    digest = hashlib.sha256()
    facts = (image.name, base_image, platform.machine(), *image.arguments)
    digest.update("\0".join(facts).encode())
    dockerfile = root / image.dockerfile
    sources = [root / path for path in copied(dockerfile.read_text())]
    for path in (dockerfile, root / ".dockerignore", *sources):
        for file in _files(path):
            content = file.read_bytes()
            digest.update(f"\0{file.relative_to(root)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(
        each for each in path.rglob("*") if each.is_file() and "__pycache__" not in each.parts
    )
