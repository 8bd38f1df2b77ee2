"""`inferometer examples`: the BenchmarkRun files that come with Inferometer."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import say

_FOLDER = resources.files("inferometer_cli") / "examples"


def examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print this one, to make it yours.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write it there instead, with the files that it needs.",
        ),
    ] = None,
) -> None:
    """List the examples, print one, or write one to a directory.

    Each begins with what it shows, how long it takes and how it ends.
    """
    texts = {
        file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8")
        for file in _FOLDER.iterdir()
        if file.name.endswith(".yaml")
    }
    if name is None:
        width = max(map(len, texts))
        say("\n".join(f"{each:<{width}}  {_purpose(texts[each])}" for each in sorted(texts)))
        return
    wanted = name.removesuffix(".yaml")
    if wanted not in texts:
        raise RefusedError(f'There is no example "{name}"; there are: {", ".join(sorted(texts))}.')
    if output is None:
        say(texts[wanted], end="")
        return
    for path in _written(wanted, output):
        say(str(path))


def _purpose(text: str) -> str:
    """Return the first comment of an example, which says what it is for."""
    return text.partition("\n")[0].removeprefix("#").strip()


def _written(name: str, output: Path) -> list[Path]:
    """Write an example and its files, never over another; return their paths."""
    beside = _FOLDER / name
    files: list[Traversable] = list(beside.iterdir()) if beside.is_dir() else []
    contents = {output / name / file.name: file.read_bytes() for file in files}
    contents[output / f"{name}.yaml"] = (_FOLDER / f"{name}.yaml").read_bytes()
    for path, content in contents.items():
        if path.exists() and (path.is_dir() or path.read_bytes() != content):
            raise RefusedError(f"{path} is there already and differs: choose another --output.")
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise FailedError(f"{error.filename} could not be written: {error.strerror}.") from error
    return sorted(contents)
