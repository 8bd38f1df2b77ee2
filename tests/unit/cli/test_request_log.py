"""The log of requests is converted to Parquet after the run."""

from pathlib import Path

import pytest
from pyarrow import parquet

from inferometer_cli.exits import RefusedError
from inferometer_cli.local.request_log import check_request_log, csv_of, finish_request_log
from inferometer_loadgen.record.request_log import HEADER


def test_columns_without_values_keep_their_types(tmp_path: Path) -> None:
    """A run without steps has empty texts, and one that never connected has no numbers."""
    path = tmp_path / "log.parquet"
    csv_of(path).write_text(f"{HEADER}\nlatency,1,,0,5,,timeout,,\n")
    finish_request_log(path)
    schema = parquet.read_schema(path)
    found = {field.name: str(field.type) for field in schema}
    texts = ("scenario", "step", "status", "model")
    assert [found.pop(name) for name in texts] == ["string"] * len(texts)
    assert set(found.values()) == {"int64"}


def test_a_log_in_a_missing_directory_is_refused(tmp_path: Path) -> None:
    """Before anything is measured, with the directory that is missing."""
    with pytest.raises(RefusedError, match=r"the directory .*nowhere does not exist"):
        check_request_log(tmp_path / "nowhere" / "log.csv")
