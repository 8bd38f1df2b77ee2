"""pydantic judges every row of the table as it says."""

from collections.abc import Iterable

from inferometer_api.spec.reading import InvalidRunError, parse_run
from support.run_table import UPDATES, rows
from support.runs import Row


def _error_paths(row: Row) -> list[str] | None:
    """Return the paths that are named as wrong, None if the run is taken."""
    try:
        parse_run(row.text, source="row")
    except InvalidRunError as error:
        return [problem.path for problem in error.problems]
    return None


def _misjudged(table: Iterable[Row]) -> list[str]:
    found = []
    for row in table:
        error_paths = _error_paths(row)
        if row.path is None:
            if error_paths is not None:
                found.append(f"{row.name}: refused for {error_paths}")
        elif error_paths is None:
            found.append(f"{row.name}: taken, and {row.path} is wrong")
        elif not any(path.startswith(row.path) for path in error_paths):
            found.append(f"{row.name}: refused for {error_paths}, not {row.path}")
    return found


def test_every_run_is_judged_as_in_the_table() -> None:
    """A valid run is taken; an invalid one is refused, and the field at fault is named.

    So are runs at each bound of the published schema, past it, and of a wrong type.
    """
    table = rows()
    assert len(table) > 800
    assert _misjudged(table) == []


def test_an_update_is_a_valid_run_by_itself() -> None:
    """What only a transition rule refuses is valid as a new object: those rows are not for us."""
    assert [row.name for row in UPDATES if _error_paths(row) is not None] == []


def test_names_of_rows_are_unique() -> None:
    """No two rows have one name, so that a judge's report says which row it means."""
    names = [row.name for row in (*rows(), *UPDATES)]
    assert len(set(names)) == len(names)
