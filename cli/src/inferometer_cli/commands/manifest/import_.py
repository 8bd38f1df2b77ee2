"""`inferometer manifest import`: converts a manifest of MLModelScope."""

from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.run_file import read_text
from inferometer_cli.terminal import print_message, print_output

_File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A manifest of MLModelScope in YAML.", show_default=False),
]
_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write it here. [default: print it]"),
]


def import_manifest(file: _File, output: _Output = None) -> None:
    """Convert a manifest of MLModelScope to ours, and name every field that has no place in it."""
    from inferometer_api.manifest.model_manifest import ModelManifest
    from inferometer_api.spec.reading import InvalidRunError, parse_document
    from inferometer_api.spec.yaml_text import write_yaml
    from inferometer_tasks.errors import TaskRefusedError
    from inferometer_tasks.mlmodelscope.conversion import convert, read_source

    try:
        converted = convert(read_source(read_text(file)))
        text = write_yaml(converted.manifest)
        parse_document(text, ModelManifest, source=str(file))
    except TaskRefusedError as error:
        raise RefusedError(f"{file} cannot be converted. {error}") from error
    except InvalidRunError as error:
        # Lines would be those of the converted text, not of the file.
        found = "".join(
            f"\n  {each.path}: {converted.not_mapped.get(each.path, each.message)}"
            for each in error.problems
        )
        raise RefusedError(f"{file} cannot be converted:{found}") from error
    for path, why in converted.not_mapped.items():
        print_message(f"not mapped: {path}: {why}.")
    for each in converted.checks:
        print_message(f"check: {each}.")
    print_message(f"{len(converted.mapped)} fields are mapped, {len(converted.not_mapped)} are not")
    if output is None:
        print_output(text, end="")
    else:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise FailedError(f"Cannot write {output}: {error.strerror}.") from error
