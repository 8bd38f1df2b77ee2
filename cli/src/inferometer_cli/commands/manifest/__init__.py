"""`inferometer manifest`: checks and imports manifests of models."""

import typer

from inferometer_cli.commands.manifest import check, import_

app = typer.Typer(
    name="manifest",
    help="Check the manifest of a model, or import one of MLModelScope.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("check", short_help="Check a manifest and resolve its constraints here.")(check.check)
app.command("import", short_help="Convert a manifest of MLModelScope.")(import_.import_manifest)
