"""How does a model's address become a checked file on this machine?

Only this module reaches beyond the machine. The server itself is handed a path.
"""

import hashlib
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO

from typing_extensions import override

from inferometer_models import zoo
from inferometer_serving.errors import ModelRefusedError
from inferometer_serving.graph_file import GraphFile, read_graph
from inferometer_serving.graph_inputs import GraphInput, graph_inputs

MAX_MODEL_BYTES = 8 << 30
"""The largest model taken by default, external data included."""

_ACCEPTED = (
    "zoo://classification/resnet50 (built in), file:model.onnx, file:/abs/model.onnx, "
    "or https://host/model.onnx with its sha256"
)
_NOT_YET = ("pvc", "s3", "configmap")
_CHUNK_BYTES = 1 << 20
_STALL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model that lies on this machine, bounded and checked."""

    path: Path
    sha256: str
    """Of the ONNX file itself."""
    size_bytes: int
    """With external data."""
    name: str
    """What to serve it as: the last part of its address without ".onnx"."""
    external_sha256: dict[str, str]
    """Of each file of external data, by its place beside the model."""
    inputs: tuple[GraphInput, ...] | None
    """What a request must carry; None where the file alone does not tell."""


def fetch(
    uri: str,
    destination: Path,
    *,
    relative_to: Path,
    sha256: str | None = None,
    max_bytes: int = MAX_MODEL_BYTES,
) -> FetchedModel:
    """Return the model at `uri` as a file on this machine.

    Models of the zoo and of https:// are written into the folder `destination`; file: models stay
    where they are, a relative one being looked up from the folder `relative_to`. Raises
    ModelRefusedError where the address is of no known kind, the model is missing, larger than
    `max_bytes`, not ONNX, of another `sha256` than asked, or has external data outside its folder;
    OSError where `destination` cannot take it.
    """
    scheme, separator, rest = uri.partition(":")
    match scheme.lower() if separator else "":
        case "zoo":
            path, name = _from_zoo(uri, rest, destination)
        case "file":
            path = local_path(uri, relative_to)
            name = path.stem
        case "https":
            path = _from_web(uri, destination, sha256, max_bytes)
            name = path.stem
        case kind if kind in _NOT_YET:
            raise ModelRefusedError(
                f"The model {uri} was asked for, but {kind}:// is not available in this version: "
                f"use {_ACCEPTED}."
            )
        case _:
            raise ModelRefusedError(
                f"The model {uri} was asked for, which is no address of a known kind: "
                f"use {_ACCEPTED}."
            )
    return _checked(uri, read_graph(path, max_bytes=max_bytes), name, sha256)


def _checked(uri: str, graph: GraphFile, name: str, sha256: str | None) -> FetchedModel:
    if sha256 is not None and graph.sha256 != sha256.lower():
        raise _other_checksum(uri, sha256, graph.sha256)
    return FetchedModel(
        path=graph.path,
        sha256=graph.sha256,
        size_bytes=graph.size_bytes,
        name=name,
        external_sha256=graph.external_sha256,
        inputs=graph_inputs(graph.model.graph),
    )


def _other_checksum(uri: str, asked: str, found: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"The model {uri} should have the sha256 {asked}, but has {found}: it is another file "
        "than the one meant; correct the checksum or the address."
    )


def _from_zoo(uri: str, rest: str, destination: Path) -> tuple[Path, str]:
    name = rest.removeprefix("//")
    try:
        entry = zoo.entry(name)
        content = zoo.read_onnx(entry.name)
    except zoo.UnknownModelError as error:
        raise ModelRefusedError(f"The model {uri} was asked for. {error}") from error
    bare = entry.name.rpartition("/")[2]
    return _write(destination / f"{bare}.onnx", iter((content,))), bare


def local_path(uri: str, relative_to: Path) -> Path:
    """Return the path of file:relative, file:/abs or file:///abs; raises ModelRefusedError."""
    rest = uri.partition(":")[2]
    if rest.startswith("//"):
        host, _, absolute = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ModelRefusedError(
                f"The model {uri} names the machine '{host}': write file:/abs/model.onnx "
                "or file:model.onnx."
            )
        rest = f"/{absolute}"
    if not rest or "\0" in rest:
        raise ModelRefusedError(f"The model {uri!r} names no file: write file:model.onnx.")
    return relative_to / urllib.parse.unquote(rest)


def _from_web(uri: str, destination: Path, sha256: str | None, max_bytes: int) -> Path:
    if sha256 is None:
        raise ModelRefusedError(
            f"The model {uri} was asked for without a sha256: give the checksum of the file, "
            "so that what is measured is known."
        )
    name = Path(urllib.parse.unquote(urllib.parse.urlsplit(uri).path)).name
    target = destination / (name or "model.onnx")
    digest = hashlib.sha256()
    with _open(uri) as response:
        _write(target, _bounded(uri, response, max_bytes, digest))
    if digest.hexdigest() != sha256.lower():
        target.unlink()
        raise _other_checksum(uri, sha256, digest.hexdigest())
    return target


def _bounded(
    uri: str, response: IO[bytes], max_bytes: int, digest: "hashlib._Hash"
) -> Iterator[bytes]:
    total = 0
    while chunk := _read(uri, response):
        total += len(chunk)
        if total > max_bytes:
            raise ModelRefusedError(
                f"The model {uri} is larger than the {max_bytes:,} bytes that are allowed: "
                "raise the limit or take a smaller model."
            )
        digest.update(chunk)
        yield chunk
    missing = getattr(response, "length", None)  # http.client itself takes a short body for whole
    if missing:
        raise _unreachable(uri, f"it ended {missing:,} bytes early")


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https only: model hosts redirect to their stores."""

    @override
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if not newurl.lower().startswith("https://"):
            fp.close()
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(uri: str) -> IO[bytes]:
    opener = urllib.request.build_opener(_SecureRedirects())
    try:
        response: IO[bytes] = opener.open(uri, timeout=_STALL_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise _unreachable(uri, error) from error  # its text tells the status too
    except (HTTPException, OSError) as error:
        raise _unreachable(uri, getattr(error, "reason", None) or error) from error
    return response


def _read(uri: str, response: IO[bytes]) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except (HTTPException, OSError) as error:
        raise _unreachable(uri, error) from error


def _unreachable(uri: str, reason: object) -> ModelRefusedError:
    return ModelRefusedError(
        f"The model {uri} cannot be fetched: {reason}. Check the address and the network."
    )


def _write(path: Path, chunks: Iterator[bytes]) -> Path:
    """Write beside and rename, so that no half-written model is ever found at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path
