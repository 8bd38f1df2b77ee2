"""Command of the fetcher: `python -m inferometer_fetch`.

It prints one line of JSON: `{"startedMicroseconds": ..., "path": ..., "sha256": ..., "name": ...,
"sizeBytes": ..., "inputs": [{"name": ..., "datatype": ..., "shape": [...]}], "sourcePath": ...,
"inputsPath": ..., "tracePaths": {}, "dataPaths": {}}`. `startedMicroseconds` is when the fetch of
the model began, in Unix time. `inputs` is null if the file alone does not name them. `sourcePath`
is the file on this machine of which `path` is a copy. `tracePaths` has the names of scenarios as
keys, `dataPaths` those of files. Members of files that were not requested are absent.

Exit codes: 0 done; 1 the network failed or the folder could not be written; 2 a file is refused;
3 the manifest excludes the engine or this machine. After 1 to 3 the last line of standard error
says why.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

from inferometer_api.runtimes.descriptor import INSTANCE_ID
from inferometer_api.spec.address import INPUTS_FILE, trace_file
from inferometer_fetch.built_in import zoo_cache
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.fetched_model import FetchedModel
from inferometer_fetch.model import MAX_MODEL_BYTES, fetch_model
from inferometer_fetch.transfer import path_below, write_atomically
from inferometer_models.errors import ModelRefusedError
from inferometer_tasks.errors import TaskRefusedError

EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, EXIT_MANIFEST_REFUSED = 0, 1, 2, 3

MAX_INPUTS_BYTES = 2 << 30
"""The largest inputs file taken by default."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch the files that a command line names; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not _addresses(options):
        parser.error("one of --uri, --inputs-uri, --trace and --data is needed")
    try:
        report = _fetch(options)
    except ModelRefusedError as error:
        sys.stderr.write(f"refused: {error}\n")
        return EXIT_REFUSED
    except TaskRefusedError as error:
        sys.stderr.write(f"refused: {error}\n")
        return EXIT_MANIFEST_REFUSED
    except FetchFailedError as error:
        sys.stderr.write(f"failed: {error}\n")
        return EXIT_FAILED
    except OSError as error:
        named = " and ".join(_addresses(options))
        sys.stderr.write(
            f"failed: {named} could not be written to {options.destination}: "
            f"{error.strerror or error}.\n"
        )
        return EXIT_FAILED
    sys.stdout.write(json.dumps(report, separators=(",", ":")) + "\n")
    return EXIT_DONE


def _fetch(options: argparse.Namespace) -> dict[str, Any]:
    report: dict[str, Any] = {}
    model: FetchedModel | None = None
    room: int = options.max_written_bytes
    if options.check_manifest is not None:
        room -= _check_manifest(options, room)
    if options.uri is not None:
        started = time.time_ns() // 1000
        model = _fetch_model(options)
        report = {
            "startedMicroseconds": started,
            "path": str(model.path),
            "sha256": model.sha256,
            "name": model.name,
            "sizeBytes": model.size_bytes,
            "inputs": None if model.inputs is None else [asdict(each) for each in model.inputs],
        }
        if model.source is not None:
            report["sourcePath"] = str(model.source)
        written = model.path.is_relative_to(options.destination)
        room -= model.size_bytes if written else 0
    instance_id = uuid4().hex
    texts = [(path, text.replace(INSTANCE_ID, instance_id)) for path, text in options.write]
    programs = files("inferometer_fetch.programs")
    texts += [(path, programs.joinpath(f"{name}.py").read_text()) for path, name in options.program]
    for path, text in texts:
        content = text.encode()
        write_atomically(path_below(options.destination, path), (content,))
        room -= len(content)
    if options.inputs_uri is not None:
        inputs = _fetch_inputs(options, model, room)
        report["inputsPath"] = str(inputs)
        room -= inputs.stat().st_size
    for name, uri in options.trace:
        trace = _fetch_trace(options, name, uri, room)
        report.setdefault("tracePaths", {})[name] = str(trace)
        room -= trace.stat().st_size
    for name, uri in options.data:
        if name == options.check_manifest:  # fetched before the model
            target = path_below(options.destination, name)
            _check_name_is_free(options, model, target, "data file")
            continue
        data = _fetch_data(options, model, name, uri, room)
        report.setdefault("dataPaths", {})[name] = str(data)
        room -= data.stat().st_size
    return report


def _check_manifest(options: argparse.Namespace, room: int) -> int:
    """Fetch the manifest, and compare it with engine and machine before a model is fetched.

    Return its size. Raises TaskRefusedError, and what `fetch_data` raises.
    """
    from inferometer_tasks.manifest_file import read_manifest  # noqa: PLC0415 - seldom needed
    from inferometer_tasks.resolution import (  # noqa: PLC0415 - as above
        check_engine,
        check_machine,
        this_node,
    )

    name: str = options.check_manifest
    file = _fetch_data(options, None, name, dict(options.data)[name], room)
    manifest = read_manifest(file)
    if options.engine:
        check_engine(manifest, options.engine, dict(options.engine_version))
    check_machine(manifest, this_node(options.device))
    return file.stat().st_size


def _addresses(options: argparse.Namespace) -> list[str]:
    traces = (uri for _, uri in (*options.trace, *options.data))
    return [each for each in (options.uri, options.inputs_uri, *traces) if each]


def _fetch_trace(options: argparse.Namespace, name: str, uri: str, room: int) -> Path:
    from inferometer_fetch.data_files import fetch_trace  # noqa: PLC0415 - seldom needed

    target = path_below(options.destination, trace_file(name))
    return fetch_trace(
        uri,
        target,
        sources=options.sources,
        max_bytes=room,
        sha256=dict(options.trace_sha256).get(name),
    )


def _fetch_data(
    options: argparse.Namespace, model: FetchedModel | None, name: str, uri: str, room: int
) -> Path:
    from inferometer_fetch.data_files import fetch_data  # noqa: PLC0415 - seldom needed

    target = path_below(options.destination, name)
    _check_name_is_free(options, model, target, "data file")
    return fetch_data(
        uri,
        target,
        sources=options.sources,
        max_bytes=room,
        sha256=dict(options.data_sha256).get(name),
    )


def _fetch_model(options: argparse.Namespace) -> FetchedModel:
    return fetch_model(
        options.uri,
        options.destination,
        relative_to=options.relative_to,
        sha256=options.sha256,
        max_bytes=options.max_model_bytes,
        sources=options.sources,
        file_name=options.file_name,
        is_copied=options.copy_model,
        cache=zoo_cache() if options.zoo_cache else None,
    )


def _fetch_inputs(options: argparse.Namespace, model: FetchedModel | None, room: int) -> Path:
    from inferometer_fetch.data_files import fetch_inputs  # noqa: PLC0415 - seldom needed

    target = options.destination / INPUTS_FILE
    _check_name_is_free(options, model, target, "inputs file")
    return fetch_inputs(
        options.inputs_uri,
        target,
        sources=options.sources,
        max_bytes=room,
        sha256=options.inputs_sha256,
    )


def _check_name_is_free(
    options: argparse.Namespace, model: FetchedModel | None, target: Path, what: str
) -> None:
    """Raise ModelRefusedError if the model has external data where a file would be written."""
    if model is None:
        return
    data = {(model.path.parent / location).resolve() for location in model.external_sha256}
    if target.resolve() in data:
        raise ModelRefusedError(
            f"The model {options.uri} has external data called {target.name}, which is what the "
            f"{what} is called here: give the data another name."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_fetch",
        description="Fetch a model, an inputs file and traces, and check their sizes and contents, "
        "before a server or a load generator reads them.",
    )
    parser.add_argument(
        "--uri", help="zoo://NAME, file:PATH, https://..., pvc://CLAIM/PATH or s3://BUCKET/KEY"
    )
    parser.add_argument("--sha256", help="Checksum of the model; needed with https://.")
    parser.add_argument(
        "--inputs-uri",
        help="A .npz file: configmap://NAME/KEY, https://..., pvc://CLAIM/PATH or s3://BUCKET/KEY; "
        f"written as {INPUTS_FILE}.",
    )
    parser.add_argument(
        "--inputs-sha256", help="Checksum of the inputs file; needed with https://."
    )
    parser.add_argument(
        "--trace",
        action="append",
        default=[],
        metavar="SCENARIO=URI",
        type=_named,
        help="CSV file of a trace scenario; its address may have the schemes of --inputs-uri.",
    )
    parser.add_argument(
        "--trace-sha256",
        action="append",
        default=[],
        metavar="SCENARIO=HEX",
        type=_named,
        help="Checksum of the file of a trace scenario; needed with https://.",
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE=URI",
        type=_named,
        help="Manifest or data set to write as FILE in --destination; its address may have the "
        "schemes of --inputs-uri.",
    )
    parser.add_argument(
        "--data-sha256",
        action="append",
        default=[],
        metavar="FILE=HEX",
        type=_named,
        help="Checksum of a file of --data; needed with https://.",
    )
    parser.add_argument(
        "--check-manifest",
        metavar="FILE",
        help="FILE of --data with the model's manifest. It is fetched first, and refused if it "
        "excludes the --engine or this machine.",
    )
    parser.add_argument("--engine", default="", help="The engine of the server.")
    parser.add_argument(
        "--engine-version",
        action="append",
        default=[],
        metavar="ENGINE=VERSION",
        type=_named,
        help="An engine in the server's image; an empty version is not known.",
    )
    parser.add_argument(
        "--device", default="CPU", choices=("CPU", "GPU"), help="The device of the server."
    )
    parser.add_argument(
        "--write",
        action="append",
        default=[],
        metavar="PATH=TEXT",
        type=_named,
        help="Further file that the server reads, such as its configuration; PATH is relative to "
        f"--destination and stays below it. {INSTANCE_ID} becomes another word at each call.",
    )
    parser.add_argument(
        "--program",
        action="append",
        default=[],
        metavar="PATH=NAME",
        type=_named,
        help="Program of Inferometer's that the server loads, such as triton_model; PATH is as for "
        "--write.",
    )
    parser.add_argument(
        "--destination",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="Folder for the inputs file, traces, and models that do not stay where they are.",
    )
    parser.add_argument(
        "--relative-to",
        default=Path(),
        type=Path,
        metavar="FOLDER",
        help="Folder in which a relative file: path starts.",
    )
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="FOLDER",
        help="Folder in which claims/CLAIM and configmaps/NAME are mounted.",
    )
    parser.add_argument(
        "--file-name",
        metavar="PATH",
        help="Path of a written model, relative to --destination.",
    )
    parser.add_argument(
        "--copy-model",
        action="store_true",
        help="Copy a model from file: or pvc:// too, instead of leaving it where it is.",
    )
    parser.add_argument(
        "--zoo-cache",
        action="store_true",
        help="Keep models from zoo:// in $XDG_CACHE_HOME/inferometer/zoo, where later runs find "
        "them, instead of writing them to --destination.",
    )
    for flag, limit, text in _LIMITS:
        parser.add_argument(flag, default=limit, type=int, metavar="BYTES", help=text)
    return parser


def _named(text: str) -> tuple[str, str]:
    name, separator, uri = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, uri


_LIMITS = (
    ("--max-model-bytes", MAX_MODEL_BYTES, "Largest model taken, external data included."),
    (
        "--max-written-bytes",
        MAX_MODEL_BYTES + MAX_INPUTS_BYTES,
        "Limit for all written files together: model, inputs and traces.",
    ),
)


if __name__ == "__main__":
    sys.exit(main())
