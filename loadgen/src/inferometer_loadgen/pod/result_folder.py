"""Result folder: the files that the exporter copies once the load generator has ended."""

import fcntl
import os
from hashlib import sha256
from pathlib import Path

from inferometer_api.plan.exporting import ExportFile, ExportManifest
from inferometer_api.plan.result_folder import DOCUMENT_FILE, LOCK_FILE, MANIFEST_FILE
from inferometer_api.results.result import ResultDocument


def hold_lock(results: Path) -> int:
    """Lock the folder as long as this process lives; return the descriptor of the lock.

    The lock file appears locked, so that no exporter finds it free too early. Raises OSError.
    """
    partial = results / f".{LOCK_FILE}.{os.getpid()}"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    partial.replace(results / LOCK_FILE)
    return descriptor


def write_result_folder(document: ResultDocument, results: Path) -> None:
    """Write the whole document, then the list of files; raise OSError."""
    written = document.model_dump_json(exclude_none=True).encode()
    _write(results / DOCUMENT_FILE, written)
    file = ExportFile(name=DOCUMENT_FILE, sha256=sha256(written).hexdigest(), bytes=len(written))
    manifest = ExportManifest(files=[file])
    _write(results / MANIFEST_FILE, manifest.model_dump_json().encode())


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_bytes(content)
    partial.replace(path)
