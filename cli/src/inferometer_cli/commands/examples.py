"""`inferometer examples`: the BenchmarkRun files that come with Inferometer."""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.terminal import print_output

_FOLDER = resources.files("inferometer_cli") / "examples"


def _names_from(begin: str) -> list[str]:
    """Return the examples that a shell may complete."""
    names = (file.name.removesuffix(".yaml") for file in _FOLDER.iterdir() if file.is_file())
    return sorted(name for name in names if name.startswith(begin))


def examples(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Print this example.", autocompletion=_names_from),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write the example to this directory, with the files that it needs.",
        ),
    ] = None,
) -> None:
    """List the examples, print one, or write one to a directory.

    The first lines of each say what it shows, how long it takes and how it ends.
    """
    texts = {
        file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8")
        for file in _FOLDER.iterdir()
        if file.name.endswith(".yaml")
    }
    if name is None:
        width = max(map(len, texts))
        print_output(
            "\n".join(f"{each:<{width}}  {_purpose(texts[each])}" for each in sorted(texts))
        )
        return
    wanted = name.removesuffix(".yaml")
    if wanted not in texts:
        raise RefusedError(f'No example is called "{name}". Choose: {", ".join(sorted(texts))}.')
    if output is None:
        print_output(texts[wanted], end="")
        return
    for path in _write(wanted, output):
        print_output(str(path))


def _purpose(text: str) -> str:
    """Return the first comment of an example, which states its purpose."""
    return text.partition("\n")[0].removeprefix("#").strip()


def _write(name: str, output: Path) -> list[Path]:
    """Write an example and its files without overwriting others; return their paths."""
    data = _FOLDER / name
    files: list[Traversable] = list(data.iterdir()) if data.is_dir() else []
    contents = {output / name / file.name: file.read_bytes() for file in files}
    contents[output / f"{name}.yaml"] = (_FOLDER / f"{name}.yaml").read_bytes()
    for path, content in contents.items():
        if path.exists() and (path.is_dir() or path.read_bytes() != content):
            raise RefusedError(f"{path} exists with other content. Choose another --output.")
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise FailedError(f"Cannot write {error.filename}: {error.strerror}.") from error
    return sorted(contents)
