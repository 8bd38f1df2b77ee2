"""Reads a model's manifest and checks it as a whole."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from inferometer_api.manifest.model_manifest import ModelManifest
from inferometer_api.spec.reading import InvalidRunError, parse_document
from inferometer_tasks.errors import TaskRefusedError
from inferometer_tasks.step_order import check_steps

BESIDE_MODEL = "model.yaml"
"""A manifest of this name next to a model file is that model's."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest, and the checksum of the file that it was read from."""

    path: Path
    manifest: ModelManifest
    sha256: str


def is_manifest(path: Path) -> bool:
    """Return whether a file is there and means to be a model's manifest."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return re.search(r"^kind: *ModelManifest\b", text, re.MULTILINE) is not None


def read_manifest(path: Path) -> ModelManifest:
    """Return the manifest in a file; raises TaskRefusedError with every problem."""
    return read_manifest_file(path).manifest


def read_manifest_file(path: Path, sha256: str | None = None) -> ManifestFile:
    """Return the manifest in a file with its checksum; raises TaskRefusedError as above.

    With `sha256`, a file that was changed since it had this checksum is refused as well.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise TaskRefusedError(f"The manifest {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise TaskRefusedError(f"The manifest {path} is not UTF-8 text.") from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 not in (None, found):
        raise TaskRefusedError(
            f"The manifest {path} was changed during the run: its sha256 was {sha256} and is "
            f"{found}. Run again, and leave the file as it is meanwhile."
        )
    # As a file that is opened as text.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        manifest = parse_document(text, ModelManifest, source=str(path))
        check_steps(manifest)
    except InvalidRunError as error:
        raise TaskRefusedError(str(error)) from error
    except TaskRefusedError as error:
        raise TaskRefusedError(f"{path}: {error}") from error
    return ManifestFile(path, manifest, found)
