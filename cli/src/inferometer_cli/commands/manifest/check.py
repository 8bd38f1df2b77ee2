"""`inferometer manifest check`: checks a manifest, and resolves its constraints here."""

from pathlib import Path
from typing import Annotated

import typer

from inferometer_cli.exits import RefusedError
from inferometer_cli.terminal import print_output

_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A ModelManifest in YAML.", show_default=False)
]


def check(file: _File) -> None:
    """Check a manifest: its fields, the order of its steps, its files, its constraints here."""
    from inferometer_api.manifest.resolution import satisfied_frameworks
    from inferometer_cli.local.engines import installed_engines
    from inferometer_cli.local.files import check_manifest_dataset
    from inferometer_tasks.assets import Assets
    from inferometer_tasks.errors import TaskRefusedError
    from inferometer_tasks.manifest_file import read_manifest_file
    from inferometer_tasks.packages import check_packages
    from inferometer_tasks.resolution import check_engine, check_machine, this_machine

    try:
        read = read_manifest_file(file)
        manifest = read.manifest
        Assets(manifest, file.parent).check()
        check_manifest_dataset(read)
        check_packages(manifest, ())
        engines = installed_engines()
        satisfied = satisfied_frameworks(manifest, engines)
        if not satisfied:
            check_engine(manifest, manifest.frameworks[0].name.lower(), engines)
        check_machine(manifest, this_machine(manifest.system_requirements.device or "CPU"))
    except TaskRefusedError as error:
        raise RefusedError(str(error)) from error
    print_output(
        f"{file} is a valid ModelManifest: {manifest.name} {manifest.version} ({manifest.task}), "
        f"licence {manifest.license}"
    )
    for each in satisfied:
        engine = each.name.lower()
        print_output(f"{engine} {each.version} is satisfied by {engines[engine]} here")
