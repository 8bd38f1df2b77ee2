"""`inferometer manifest`: checks and imports manifests of models."""

from inferometer_cli.command_group import CommandGroup
from inferometer_cli.commands.manifest import check, import_

app = CommandGroup("manifest", help="Check the manifest of a model, or import one of MLModelScope.")
app.command("check", short_help="Check a manifest and resolve its constraints here.")(check.check)
app.command("import", short_help="Convert a manifest of MLModelScope.")(import_.import_manifest)
