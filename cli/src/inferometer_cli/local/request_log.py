"""The file of `inferometer run --log-requests`: checked before a run, and finished after it."""

from pathlib import Path

from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_file import check_directory
from inferometer_cli.terminal import print_error

_PARQUET = ".parquet"
_TEXTS = frozenset({"scenario", "step", "status", "model"})
"""The columns that are not whole numbers."""
_NO_PARQUET = "Parquet needs pyarrow: install inferometer[parquet], or log to a .csv file."


def check_request_log(path: Path) -> None:
    """Refuse, before anything is measured, a log that cannot be written or exists already."""
    if path.suffix not in {".csv", _PARQUET}:
        raise RefusedError(f"--log-requests writes .csv or .parquet, but {path} is neither.")
    if path.exists():
        raise RefusedError(f"{path} exists. Choose another file with --log-requests.")
    if not path.parent.is_dir():
        raise RefusedError(
            f"Cannot write {path}: the directory {path.parent} does not exist. Create it, or "
            "choose another file with --log-requests."
        )
    check_directory(path.parent)
    if path.suffix == _PARQUET:
        try:
            # An extra, and slow to import.
            import pyarrow as _  # noqa: F401, ICN001
        except ImportError as error:
            raise RefusedError(_NO_PARQUET) from error


def csv_of(path: Path) -> Path:
    """Return the file that the load generator writes; Parquet is made of it after the run."""
    return path.with_suffix(f"{path.suffix}.csv") if path.suffix == _PARQUET else path


def planned_log(run: BenchmarkRun, path: Path | None) -> str | None:
    """Return the file that the load generator of a run writes; None without a log.

    Raises RefusedError if a fleet drives the load.
    """
    if path is None:
        return None
    workers = run.spec.load.workers
    if workers > 1:
        raise RefusedError(
            f"--log-requests needs one load generator, but spec.load.workers is {workers}. Omit "
            "--log-requests, or set workers to 1."
        )
    return str(csv_of(path).absolute())


def finish_request_log(path: Path) -> None:
    """Convert the log to Parquet if that is requested; say so if it is incomplete."""
    written = csv_of(path)
    if not written.exists():
        partial = Path(f"{written}.partial")
        if partial.exists():
            print_error(f"The log of requests is incomplete: {partial}.")
        return
    if path.suffix == _PARQUET:
        import pyarrow as pa
        from pyarrow import csv, parquet

        from inferometer_loadgen.record.request_log import HEADER

        # An empty column would have the type null.
        types = {name: pa.string() if name in _TEXTS else pa.int64() for name in HEADER.split(",")}
        options = csv.ConvertOptions(column_types=types)
        parquet.write_table(csv.read_csv(written, convert_options=options), path)
        written.unlink()
