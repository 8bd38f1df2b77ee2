"""The images: their names, and the targets of the Dockerfile that make them."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = {
    f"inferometer-{target}": target
    for target in ("operator", "loadgen", "telemetry", "results", "serving", "serving-gpu")
}
"""The target of each image, by the image's name."""
LIGHT = tuple(name for name in IMAGES if not name.endswith("-gpu"))
"""The images that are built by default: CUDA's libraries take gigabytes."""


def version(root: Path) -> str:
    """Return the version of a checkout, which is the default tag of its images."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def reference(name: str, *, registry: str, tag: str) -> str:
    """Return an image's reference: "registry.example.com/team/inferometer-loadgen:0.1.0"."""
    return f"{registry.rstrip('/')}/{name}:{tag}" if registry else f"{name}:{tag}"


def name_in_cluster(image_reference: str) -> str:
    """Return the name that a node uses: without a registry, an image belongs to Docker Hub."""
    first, slash, _ = image_reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image_reference
    return f"docker.io/{image_reference}" if slash else f"docker.io/library/{image_reference}"
