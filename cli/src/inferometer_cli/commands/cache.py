"""`inferometer cache`: measures the forms in which a node can keep a model."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import output_console, print_message, print_output

if TYPE_CHECKING:
    from inferometer_analysis.model_forms import FormChoice

_ModelArgument = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, metavar="MODEL", help="An ONNX file.")
]
_WriteOption = Annotated[
    Path | None,
    typer.Option(
        "--write",
        file_okay=False,
        metavar="FOLDER",
        help="Keep the recommended form in this folder, which must not exist.",
    ),
]
_ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, metavar="N", help="Threads within an operator.")
]
_ServersOption = Annotated[
    int,
    typer.Option("--servers", min=2, max=64, metavar="N", help="Servers that share the memory."),
]
_JsonOption = Annotated[bool, typer.Option("--json", help="Print the whole document.")]

_HEADINGS = ("form", "load ms", "together ms", "first ms", "steady ms", "added MiB", "file MiB")
_STEADY_RANGE = "steadyRangeMilliseconds"
_SETTINGS = {
    "OneFile": "the model in one file",
    "ExternalData": "weights as external data",
    "MemoryMapped": "weights as external data, with server.onnxRuntime.prepacking: false",
    "SavedPrepacked": "the optimised graph with prepacked weights, with "
    "server.onnxRuntime.graphOptimization: Disabled; it fits this kind of CPU and this version of "
    "ONNX Runtime alone",
}


def cache(
    model: _ModelArgument,
    *,
    write: _WriteOption = None,
    threads: _ThreadsOption = 1,
    servers: _ServersOption = 3,
    as_json: _JsonOption = False,
) -> None:
    """Measure in which form a model loads fastest, and whether servers of a node should share it.

    Each form is opened in fresh processes with its pages in memory, as from the model cache of a
    node. "added" is the memory that each further server of the model takes.
    """
    from inferometer_cli.local.model_forms import measure_forms

    with (
        _new_folder(write) as target,
        tempfile.TemporaryDirectory(prefix="inferometer-forms-") as folder,
    ):
        print_message(f"Writing and opening the forms of {model} ...")
        document = measure_forms(model, Path(folder) / "forms", threads=threads, servers=servers)
        choice = _choice(document["forms"])
        try:
            _print(document, choice, as_json=as_json)
        finally:
            if target is not None:
                (best,) = (each for each in document["forms"] if each["name"] == choice.best.name)
                _copy(Path(best["model"]).parent, target)


@contextmanager
def _new_folder(folder: Path | None) -> Iterator[Path | None]:
    """Make a folder before anything is measured; delete it if the block leaves it empty."""
    if folder is None:
        yield None
        return
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise RefusedError(f"The folder {folder} exists: name a new one in --write.") from error
    except OSError as error:
        raise RefusedError(f"Cannot make the folder {folder}: {error.strerror}.") from error
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


def _copy(form: Path, folder: Path) -> None:
    try:
        shutil.copytree(form, folder, dirs_exist_ok=True)
    except OSError as error:
        # Of several errors, the first one's reason.
        why = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
        raise FailedError(f"The form in {folder} is not whole: {why}.") from error


def _print(document: dict[str, Any], choice: "FormChoice", *, as_json: bool) -> None:
    if as_json:
        import orjson

        print_output(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
        return
    _print_table(document["forms"])
    for name, why in document["unavailable"].items():
        print_output(f"Not measured: {name}: {why}.")
    for sentence in (*_sentences(choice), _sharing_sentence(document, choice)):
        print_output(sentence)


def _choice(forms: list[dict[str, Any]]) -> "FormChoice":
    from inferometer_analysis.model_forms import FormFigures, choose_form

    return choose_form(
        [
            FormFigures(
                each["name"],
                each["loadMilliseconds"],
                each["steadyMilliseconds"],
                each["addedBytes"],
                steady_range=(each[_STEADY_RANGE][0], each[_STEADY_RANGE][1]),
            )
            for each in forms
        ]
    )


def _print_table(forms: list[dict[str, Any]]) -> None:
    from inferometer_cli.text_table import print_columns

    rows = [
        (
            each["name"],
            *(
                _milliseconds(each[name])
                for name in (
                    "loadMilliseconds",
                    "togetherMilliseconds",
                    "firstMilliseconds",
                    "steadyMilliseconds",
                )
            ),
            f"{each['addedBytes'] / 2**20:.1f}",
            f"{each['fileBytes'] / 2**20:.1f}",
        )
        for each in forms
    ]
    print_columns([_HEADINGS, *rows], output_console())


def _milliseconds(value: float) -> str:
    """Return a time of a table, with two digits at least: 412.3, 4.1, 0.023."""
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _sentences(choice: "FormChoice") -> list[str]:
    best, fastest = choice.best, choice.fastest
    found = [f"Keep {best.name}: {_SETTINGS[best.name]}."]
    if fastest.name == best.name:
        return found
    loads = (
        f"{fastest.name} loads in {_milliseconds(fastest.load_milliseconds)} ms instead of "
        f"{_milliseconds(best.load_milliseconds)} ms"
    )
    if not choice.is_cost_certain:
        ranges = (
            " to ".join(map(_milliseconds, each.steady_range or ())) for each in (fastest, best)
        )
        found.append(
            f"{loads}. Whether it costs steady latency is not certain: its processes took "
            f"{' ms, and the others '.join(ranges)} ms."
        )
        return found
    queries = choice.break_even_queries
    after = "" if queries is None else f" Past {queries:,} queries, {best.name} is ahead."
    found.append(f"{loads}, and costs {choice.steady_cost:.0%} of steady latency.{after}")
    return found


def _sharing_sentence(document: dict[str, Any], choice: "FormChoice") -> str:
    """Return whether the servers of a node should share the model, by the formula of TrIMS."""
    from inferometer_analysis.model_forms import SharingCosts, sharing_gain_seconds
    from inferometer_results.quantity import byte_unit, duration

    found = document["sharing"]
    if why := found.get("unavailable"):
        return f"Whether sharing it pays is not known here: {why}."
    costs = SharingCosts(
        found["diskBytesPerSecond"],
        found["exportMilliseconds"] / 1e3,
        found["openMilliseconds"] / 1e3,
    )
    (best,) = (each for each in document["forms"] if each["name"] == choice.best.name)
    size, files = best["fileBytes"], best["files"]
    gain = sharing_gain_seconds(size, files, costs)
    read = 1e9 * size / costs.disk_bytes_per_second
    shared = 1e9 * files * (costs.export_seconds + costs.open_seconds)
    counted = "1 file" if files == 1 else f"{files} files"
    return (
        f"{'Share it' if gain > 0 else 'Do not share it'}: a read of "
        f"{byte_unit([size]).named(size)} from this disk takes {duration(read)}, and to export and "
        f"open {counted} {duration(shared)}."
    )
