"""`inferometer run --log-requests` writes a row for each measured query."""

import csv
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from support.local_runs import Done, done, together

SCENARIOS: tuple[dict[str, Any], ...] = (
    {"server": {"targetQps": 50}},
    {"batch": {"batchSizes": [1, 2]}},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the runs and their logs."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def runs(folder: Path) -> Iterator[dict[str, Future[Done]]]:
    """Measure two scenarios twice with either format; a fleet is refused."""
    (folder / "exists.csv").write_text("mine")
    specs: dict[str, dict[str, Any]] = {"fleet.csv": {"load": {"workers": 2, "connections": 2}}}
    runs = {
        name: partial(
            done,
            folder / f"run-{name}",
            *SCENARIOS,
            spec=specs.get(name, {}),
            validity={"minDurationSeconds": 2, "minQueries": 1, "repeats": 2},
            words=("--log-requests", str(folder / name)),
        )
        for name in ("log.csv", "log.parquet", "fleet.csv", "exists.csv", "log.txt")
    }
    with together(runs, at_once=2) as futures:
        yield futures


def expected(run: Done) -> Counter[tuple[str, int, str]]:
    """Return how many queries the result has of each step."""
    assert run.result is not None, run.ended.stderr
    return Counter(
        {
            (result.name, result.repeat, step.label): step.counts.queries
            for result in run.result.scenarios
            for step in result.steps
        }
    )


def test_csv_has_as_many_rows_as_the_result_has_queries(
    runs: dict[str, Future[Done]], folder: Path
) -> None:
    """Each row has its scenario, repeat and step; a query is sent when it is due or later."""
    run = runs["log.csv"].result()
    with (folder / "log.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = Counter((row["scenario"], int(row["repeat"]), row["step"]) for row in rows)
    assert found == expected(run)
    assert len(found) == 6
    for row in rows:
        times = [int(row[f"{name}Nanoseconds"]) for name in ("due", "sent", "answered")]
        assert times == sorted(times)
    assert not list(folder.glob("*.partial"))


def test_parquet_has_the_same_columns_with_their_types(
    runs: dict[str, Future[Done]], folder: Path
) -> None:
    """Times are integers, and the CSV that it is made of is gone."""
    run = runs["log.parquet"].result()
    table = parquet.read_table(folder / "log.parquet")
    assert table.num_rows == expected(run).total()
    assert str(table.schema.field("dueNanoseconds").type) == "int64"
    assert [path.name for path in folder.glob("log.parquet*")] == ["log.parquet"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fleet.csv", "--log-requests needs one load generator, but spec.load.workers is 2"),
        ("exists.csv", "exists. Choose another file"),
        ("log.txt", "--log-requests writes .csv or .parquet"),
    ],
)
def test_a_log_that_cannot_be_written_is_refused(
    runs: dict[str, Future[Done]], folder: Path, name: str, message: str
) -> None:
    """Nothing is measured, and no file is changed."""
    run = runs[name].result()
    assert run.ended.code == 2
    assert message in " ".join(run.ended.stderr.split())
    assert (folder / "exists.csv").read_text() == "mine"
