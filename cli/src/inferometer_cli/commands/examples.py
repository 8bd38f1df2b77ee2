"""`inferometer examples`: the BenchmarkRun files that come with Inferometer."""

from importlib import resources
from typing import Annotated

import typer

from inferometer_cli.exits import RefusedError
from inferometer_cli.terminal import say

_FOLDER = resources.files("inferometer_cli") / "examples"


def examples(
    name: Annotated[
        str | None, typer.Argument(help="Print this one, to save it and make it yours.")
    ] = None,
) -> None:
    """List the example files, or print one: inferometer examples 01-resnet50-cpu > my-run.yaml."""
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
    say(texts[wanted], end="")


def _purpose(text: str) -> str:
    """Return the first comment of an example, which says what it is for."""
    return text.partition("\n")[0].removeprefix("#").strip()
