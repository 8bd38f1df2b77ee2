"""Fetches a model by its address, and checks it.

Only the fetcher reaches beyond the machine: the server gets a path. Heavy modules are imported
when an address needs them, because a run waits for the fetch.
"""

import os
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from inferometer_api.spec.address import Address
from inferometer_api.spec.zoo_address import UnknownModelError, zoo_name
from inferometer_fetch.addresses import checked_address
from inferometer_fetch.built_in import cached_model, write_model
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.fetched_model import FetchedModel, GraphInput
from inferometer_fetch.mounts import mounted_file
from inferometer_fetch.transfer import (
    file_chunks,
    path_below,
    transfer_to_file,
)
from inferometer_models import zoo
from inferometer_models.errors import ModelRefusedError
from inferometer_models.zoo import ZooEntry

MAX_MODEL_BYTES = 8 << 30
"""The largest model taken by default, external data included."""

_ACCEPTED = (
    "zoo://classification/resnet50 (built in), file:model.onnx, file:/abs/model.onnx, "
    "https://host/model.onnx with its sha256, s3://BUCKET/KEY with the keys of its store, "
    "or in a cluster pvc://CLAIM/PATH"
)

_Stream: TypeAlias = Callable[[], Iterable[bytes]]


def fetch_model(  # noqa: PLR0913 - each is one fact of the request, and named
    uri: str,
    destination: Path,
    *,
    relative_to: Path,
    sha256: str | None = None,
    max_bytes: int = MAX_MODEL_BYTES,
    sources: Path | None = None,
    file_name: str | None = None,
    is_copied: bool = False,
    cache: Path | None = None,
) -> FetchedModel:
    """Fetch the model at `uri`; return it as a file on this machine.

    Models from zoo://, https:// and s3:// are written into the folder `destination`, as the path
    `file_name` in it if that is given. Models from file: and pvc://, and those from zoo:// if there
    is a `cache` of them, stay where they are unless `is_copied`: a relative file: path starts in
    the folder `relative_to`, and claims are below the folder `sources`.

    Raises ModelRefusedError if the address has no known scheme, `file_name` leads out of
    `destination`, or the model is missing, larger than `max_bytes`, not ONNX, differs from
    `sha256`, or has external data outside its folder; FetchFailedError if the network fails or
    `cache` cannot be written; OSError if `destination` cannot be written.
    """
    if file_name is not None:
        path_below(destination, file_name)
    found = checked_address(uri)
    match uri.partition(":")[0].lower() if ":" in uri else "":
        case "zoo":
            entry = _zoo_entry(uri, sha256, max_bytes)
            target = destination / (file_name or f"{entry.bare_name}.onnx")
            if cache is None:
                return _built_in(entry, write_model(entry, target))
            model = _built_in(entry, cached_model(entry, cache))
            return _copy(model, target) if is_copied else model
        case "file":
            path = local_path(uri, relative_to)
            _check_exists(path, relative_to)
        case "https":
            path = destination / (file_name or _last_part(uri) or "model.onnx")
            _from_web(uri, path, sha256, max_bytes)
        case "pvc" if found is not None:
            path = mounted_file(f"model {uri}", found, sources)
        case "s3" if found is not None:
            path = destination / (file_name or _last_part(uri))
            _from_store(uri, found, path, sha256, max_bytes)
        case _:
            raise ModelRefusedError(f"Unknown model address: {uri}. Use {_ACCEPTED}.")
    name = Path(_last_part(uri)).stem or path.stem
    model = _check(uri, path, name, sha256, max_bytes)
    target = destination / (file_name or path.name)
    return _copy(model, target) if is_copied and path != target else model


def _last_part(uri: str) -> str:
    path = uri.partition(":")[2].partition("?")[0].partition("#")[0]
    return Path(urllib.parse.unquote(path)).name


def _check(uri: str, path: Path, name: str, sha256: str | None, max_bytes: int) -> FetchedModel:
    from inferometer_fetch.graph_inputs import graph_inputs  # noqa: PLC0415 - heavy, see above
    from inferometer_models.graph_file import read_graph  # noqa: PLC0415 - heavy, see above

    graph = read_graph(path, max_bytes=max_bytes)
    _check_sum(uri, sha256, graph.sha256)
    return FetchedModel(
        path=graph.path,
        sha256=graph.sha256,
        size_bytes=graph.size_bytes,
        name=name,
        external_sha256=graph.external_sha256,
        inputs=graph_inputs(graph.model.graph),
    )


def _copy(model: FetchedModel, target: Path) -> FetchedModel:
    """Copy a checked model and its external data; return the copy."""
    files = {model.path: (target, model.sha256)}
    for location, sha256 in model.external_sha256.items():
        files[model.path.parent / location] = (target.parent / location, sha256)
    for source, (copy, sha256) in files.items():
        stream = partial(file_chunks, source)
        size = source.stat().st_size
        if transfer_to_file(f"copy of {source}", stream, copy, max_bytes=size) != sha256:
            raise FetchFailedError(f"The file {source} changed while it was copied: try again.")
    return replace(model, path=target, source=model.path)


def _check_sum(uri: str, expected: str | None, found: str) -> None:
    if expected is not None and found != expected.lower():
        raise ModelRefusedError(
            f"The model {uri} should have the sha256 {expected}, but has {found}: it is "
            "another file. Correct the checksum or the address."
        )


def _zoo_entry(uri: str, sha256: str | None, max_bytes: int) -> ZooEntry:
    try:
        entry = zoo.entry(zoo_name(uri))
    except UnknownModelError as error:
        raise ModelRefusedError(f"Unknown model: {uri}. {error}") from error
    _check_sum(uri, sha256, entry.sha256)
    if entry.size_bytes > max_bytes:
        raise ModelRefusedError(
            f"The model {uri} has {entry.size_bytes:,} bytes, and at most {max_bytes:,} are "
            "allowed: raise the limit or take a smaller model."
        )
    return entry


def _built_in(entry: ZooEntry, path: Path) -> FetchedModel:
    """Describe a built-in model without opening it: the index lists all that is needed."""
    shape = tuple(axis if isinstance(axis, int) else -1 for axis in entry.input_shape)
    return FetchedModel(
        path=path,
        sha256=entry.sha256,
        size_bytes=entry.size_bytes,
        name=entry.bare_name,
        external_sha256={entry.weights_file: entry.weights_sha256},
        inputs=(GraphInput("input", entry.input_datatype, shape),),
    )


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


def _check_exists(path: Path, relative_to: Path) -> None:
    try:
        path.stat()
    except FileNotFoundError as error:
        raise ModelRefusedError(
            f"Model file not found: {path}. Relative paths start in {relative_to.absolute()}."
        ) from error
    except OSError:
        pass  # the check of the graph reports it


def _from_web(uri: str, target: Path, sha256: str | None, max_bytes: int) -> None:
    from inferometer_fetch.https import https_stream  # noqa: PLC0415 - heavy, see above

    if sha256 is None:
        raise ModelRefusedError(
            f"The model {uri} has no sha256: give the checksum of the file, so that the measured "
            "model is identified."
        )
    what = f"model {uri}"
    _download(uri, lambda: https_stream(what, uri), target, sha256, max_bytes)


def _from_store(uri: str, found: Address, target: Path, sha256: str | None, max_bytes: int) -> None:
    """Write an object of a store, and next to it the external data that it names."""
    from inferometer_fetch.object_store import (  # noqa: PLC0415 - heavy, see above
        object_stream,
        store_from,
    )
    from inferometer_models.graph_file import external_files  # noqa: PLC0415 - heavy, see above

    store = store_from(f"model {uri}", os.environ)
    stream = object_stream(f"model {uri}", store, found.place, found.path)
    _download(uri, stream, target, sha256, max_bytes)
    room = max_bytes - target.stat().st_size
    folder, _, _ = found.path.rpartition("/")
    for file in external_files(target):
        relative = file.relative_to(target.parent.resolve()).as_posix()
        key = f"{folder}/{relative}" if folder else relative
        what = f"external data s3://{found.place}/{key} of the model {uri}"
        transfer_to_file(what, object_stream(what, store, found.place, key), file, max_bytes=room)
        room -= file.stat().st_size


def _download(uri: str, stream: _Stream, target: Path, sha256: str | None, max_bytes: int) -> None:
    digest = transfer_to_file(f"model {uri}", stream, target, max_bytes=max_bytes)
    if sha256 is not None and digest != sha256.lower():
        target.unlink()
        # Not which: the author of a run could compare what an address of the cluster serves.
        raise ModelRefusedError(
            f"The model {uri} should have the sha256 {sha256}, but has another: it is another "
            "file. Correct the checksum or the address."
        )
