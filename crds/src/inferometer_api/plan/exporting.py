"""Export of a run's result: its folder, the exporter's command, the list of files, the report."""

from typing import Annotated

from pydantic import Field, StringConstraints

from inferometer_api.document import Count, Document, Sha256
from inferometer_api.plan.cluster_objects import export_name
from inferometer_api.plan.result_folder import FILE_NAME

_MODULE = "inferometer_fetch.export"


class ExportFile(Document):
    """One file of a result folder."""

    name: Annotated[str, StringConstraints(pattern=f"^{FILE_NAME.pattern}$")]
    sha256: Sha256
    bytes: Count


class ExportManifest(Document):
    """The files of a result folder; the first one is the result document."""

    files: Annotated[list[ExportFile], Field(min_length=1, max_length=1000)]


class ExportReport(Document):
    """The termination message of an exporter."""

    sha256: Sha256 | None = None
    """SHA-256 of the exported document; absent if the export failed."""
    bytes: Count = 0
    error: Annotated[str, Field(max_length=4096)] = ""
    """Why the export failed: a sentence."""


def export_folder(uri: str, run_name: str, run_uid: str) -> str:
    """Return the address of the folder that a run is exported to."""
    return f"{uri.rstrip('/')}/{export_name(run_name, run_uid)}"


def export_command(
    python: str, *, results: str, target: str, claims: str, give_up_seconds: int
) -> tuple[str, ...]:
    """Return the command line of the exporter of the folder `results`.

    `target` is the address of `export_folder`; `claims` is the folder of `claim_folder`. The
    exporter waits for the end of the load generator, and retries for `give_up_seconds`.
    """
    return (
        python,
        *("-m", _MODULE),
        *("--results", results),
        *("--target", target),
        *("--claims", claims),
        *("--give-up-seconds", str(give_up_seconds)),
    )
