"""Reads a model's manifest and checks it as a whole."""

import re
from pathlib import Path

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.manifest.version_constraint import ConstraintError, check_constraint
from inferometer_api.spec.reading import InvalidRunError, parse_document
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.pipeline import check_steps

BESIDE_MODEL = "model.yaml"
"""A manifest of this name next to a model file is that model's."""


def is_manifest(path: Path) -> bool:
    """Return whether a file is there and means to be a model's manifest."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return re.search(r"^kind: *ModelManifest\b", text, re.MULTILINE) is not None


def read_manifest(path: Path) -> ModelManifest:
    """Return the manifest in a file; raises TaskRefusedError with every problem."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TaskRefusedError(f"The manifest {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TaskRefusedError(f"The manifest {path} is not UTF-8 text.") from error
    try:
        manifest = parse_document(text, ModelManifest, source=str(path))
        check_constraint(manifest.framework.version)
        check_steps(manifest)
    except (InvalidRunError, ConstraintError) as error:
        raise TaskRefusedError(str(error)) from error
    except TaskRefusedError as error:
        raise TaskRefusedError(f"{path}: {error}") from error
    return manifest
