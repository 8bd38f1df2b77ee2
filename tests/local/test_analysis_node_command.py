"""The command `inferometer node` where it does not measure everything."""

from pathlib import Path

from support.inferometer_process import started


def test_a_name_that_begins_nothing_is_refused(tmp_path: Path) -> None:
    """The command measures and keeps nothing, and lists the names that there are."""
    database = tmp_path / "results.db"
    with started(tmp_path, "node", "--only", "dsk", "--database", str(database)) as process:
        ended = process.ended(60)
    assert ended.code == 2
    assert "There is no primitive or figure whose name begins with 'dsk'" in ended.stderr
    assert "disk/read" in ended.stderr
    assert not database.exists()
