"""An image that holds one static program and nothing else."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_OCI = "application/vnd.oci.image"


def pack(program: Path, image: str, archive: Path) -> Path:
    """Write an OCI archive of an image that runs this program, and return its path."""
    blobs: dict[str, bytes] = {}
    layer = _tar({program.name: program.read_bytes()}, mode=0o755)
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _blob(blobs, json.dumps(config).encode(), f"{_OCI}.config.v1+json"),
        "layers": [_blob(blobs, gzip.compress(layer, mtime=0), f"{_OCI}.layer.v1.tar+gzip")],
    }
    described = _blob(blobs, json.dumps(manifest).encode(), f"{_OCI}.manifest.v1+json")
    described["annotations"] = {"io.containerd.image.name": image}
    index = {"schemaVersion": 2, "manifests": [described]}
    files = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    files["oci-layout"] = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
    files["index.json"] = json.dumps(index).encode()
    archive.write_bytes(_tar(files))
    return archive


def _blob(blobs: dict[str, bytes], content: bytes, media_type: str) -> dict[str, Any]:
    """Keep a blob and return its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _tar(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()
