"""How are a run's files fetched by a process of its own? `python -m inferometer_fetch`.

It prints one line of JSON: `{"path": ..., "sha256": ..., "name": ..., "sizeBytes": ...,
"inputs": [{"name": ..., "datatype": ..., "shape": [...]}], "inputsPath": ...}`, and ends 0;
`inputs` is null where the file alone does not tell them, and what was not asked for is left out;
traces are told in `tracePaths`, by the names of their scenarios.
Else a sentence on standard error says why not: it ends 2 where the model or the inputs file are
refused, and 1 where the network fails or the folder cannot take them.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inferometer_api.spec.address import INPUTS_FILE, trace_file
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.fetched_model import FetchedModel
from inferometer_fetch.model import MAX_MODEL_BYTES, fetch_model
from inferometer_models.errors import ModelRefusedError

EXIT_DONE, EXIT_FAILED, EXIT_REFUSED = 0, 1, 2

MAX_INPUTS_BYTES = 2 << 30
"""The largest inputs file taken by default."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch what a command line names, and return the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if not _addresses(asked):
        parser.error("one of --uri, --inputs-uri and --trace is needed")
    try:
        told = _fetched(asked)
    except ModelRefusedError as error:
        sys.stderr.write(f"refused: {error}\n")
        return EXIT_REFUSED
    except FetchFailedError as error:
        sys.stderr.write(f"failed: {error}\n")
        return EXIT_FAILED
    except OSError as error:
        named = " and ".join(_addresses(asked))
        sys.stderr.write(
            f"failed: {named} could not be written to {asked.destination}: "
            f"{error.strerror or error}.\n"
        )
        return EXIT_FAILED
    sys.stdout.write(json.dumps(told, separators=(",", ":")) + "\n")
    return EXIT_DONE


def _fetched(asked: argparse.Namespace) -> dict[str, Any]:
    told: dict[str, Any] = {}
    model: FetchedModel | None = None
    room: int = asked.max_written_bytes
    if asked.uri is not None:
        model = _model(asked)
        told = {
            "path": str(model.path),
            "sha256": model.sha256,
            "name": model.name,
            "sizeBytes": model.size_bytes,
            "inputs": None if model.inputs is None else [asdict(each) for each in model.inputs],
        }
        written = model.path.is_relative_to(asked.destination)
        room -= model.size_bytes if written else 0
    if asked.inputs_uri is not None:
        path = _inputs(asked, model, room)
        told["inputsPath"] = str(path)
        room -= path.stat().st_size
    for name, uri in asked.trace:
        path = _trace(asked, name, uri, room)
        told.setdefault("tracePaths", {})[name] = str(path)
        room -= path.stat().st_size
    return told


def _addresses(asked: argparse.Namespace) -> list[str]:
    traces = (uri for _, uri in asked.trace)
    return [each for each in (asked.uri, asked.inputs_uri, *traces) if each]


def _trace(asked: argparse.Namespace, name: str, uri: str, room: int) -> Path:
    from inferometer_fetch.data_files import fetch_trace  # noqa: PLC0415 - seldom needed

    target = asked.destination / trace_file(name)
    return fetch_trace(uri, target, sources=asked.sources, max_bytes=room)


def _model(asked: argparse.Namespace) -> FetchedModel:
    return fetch_model(
        asked.uri,
        asked.destination,
        relative_to=asked.relative_to,
        sha256=asked.sha256,
        max_bytes=asked.max_model_bytes,
        sources=asked.sources,
        file_name=asked.file_name,
    )


def _inputs(asked: argparse.Namespace, model: FetchedModel | None, room: int) -> Path:
    from inferometer_fetch.data_files import fetch_inputs  # noqa: PLC0415 - seldom needed

    target = asked.destination / INPUTS_FILE
    if model is not None and _is_data_of(model, target):
        raise ModelRefusedError(
            f"The model {asked.uri} has external data called {INPUTS_FILE}, which is what the "
            "inputs file is called here: give the data another name."
        )
    return fetch_inputs(asked.inputs_uri, target, sources=asked.sources, max_bytes=room)


def _is_data_of(model: FetchedModel, target: Path) -> bool:
    data = {(model.path.parent / location).resolve() for location in model.external_sha256}
    return target.resolve() in data


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m inferometer_fetch",
        description="Fetch a model, an inputs file and traces, bound them and check them, before a "
        "server or a load generator is handed their paths.",
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
        "--trace",
        action="append",
        default=[],
        metavar="SCENARIO=URI",
        type=_named,
        help="The CSV file of a trace scenario, from where a .npz file may come, too.",
    )
    parser.add_argument(
        "--destination",
        required=True,
        type=Path,
        metavar="FOLDER",
        help="Where models that are not files on this machine, and the inputs file, are written.",
    )
    parser.add_argument(
        "--relative-to",
        default=Path(),
        type=Path,
        metavar="FOLDER",
        help="Where a relative file: path begins.",
    )
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="FOLDER",
        help="Where claims/CLAIM and configmaps/NAME are mounted.",
    )
    parser.add_argument("--file-name", metavar="NAME", help="What a written model is called.")
    for flag, limit, text in _LIMITS:
        parser.add_argument(flag, default=limit, type=int, metavar="BYTES", help=text)
    return parser


def _named(text: str) -> tuple[str, str]:
    name, separator, uri = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not SCENARIO=URI")
    return name, uri


_LIMITS = (
    ("--max-model-bytes", MAX_MODEL_BYTES, "Largest model taken, external data included."),
    (
        "--max-written-bytes",
        MAX_MODEL_BYTES + MAX_INPUTS_BYTES,
        "The most that is written, model, inputs file and traces together.",
    ),
)


if __name__ == "__main__":
    sys.exit(main())
