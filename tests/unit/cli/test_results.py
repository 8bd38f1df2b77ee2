"""`inferometer results` keeps, finds and carries results, and refuses with what to do."""

import errno
import json
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pyarrow.parquet
import pytest

from inferometer_cli.commands.results import transfer as transfer_command
from inferometer_results.store import transfer
from inferometer_results.store.database import StoreError
from inferometer_results.store.index_rows import Origin
from inferometer_results.store.store import Store
from support.command import Command
from support.stored_results import KEPT, a_document
from support.waiting import result_of

CLUSTER = str(KEPT / "1.1-cluster.json")


@pytest.fixture
def inferometer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run a command with an empty database."""
    monkeypatch.setenv("INFEROMETER_DATABASE", str(tmp_path / "kept" / "results.db"))
    return Command(monkeypatch, capsys)


@pytest.fixture
def id_(inferometer: Command) -> str:
    """Import the result of a cluster; return its ID."""
    assert inferometer("results", "import", CLUSTER).code == 0
    (row,) = json.loads(inferometer("results", "list", "--json").stdout)
    return str(row["id"])


@pytest.fixture
def archive(inferometer: Command, id_: str, tmp_path: Path) -> Path:
    """Export everything, with a tag of the result; return the file."""
    assert inferometer("results", "tag", id_, "baseline").code == 0
    path = tmp_path / "all.jsonl"
    assert inferometer("results", "export", "--all", "-o", str(path)).code == 0
    return path


def test_an_empty_database_has_no_results(inferometer: Command) -> None:
    """It is made at first use."""
    completed = inferometer("results", "list")
    assert (completed.code, completed.stdout) == (0, "")
    assert completed.stderr == "No results.\n"


def test_a_list_has_a_row_for_each_scenario(inferometer: Command, id_: str) -> None:
    """The heading names the columns; the condition chooses the results."""
    heading, *rows = inferometer("results", "list").stdout.splitlines()
    assert heading.split()[:3] == ["ID", "STARTED", "RUN"]
    assert [row.split()[0] for row in rows] == [id_[:12]] * 3
    assert [row.split()[9] for row in rows] == ["VALID", "INVALID", "VALID"]
    nothing = inferometer("results", "list", "--where", "model=other")
    assert nothing.stderr == "No results for this condition.\n"


def test_a_list_continues_after_a_result(inferometer: Command, id_: str, tmp_path: Path) -> None:
    """The command prints the ID to continue with, as long as there may be more."""
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "result.json").write_bytes(a_document(number))
    assert inferometer("results", "import", str(tmp_path)).code == 0
    whole = [each["id"] for each in json.loads(inferometer("results", "list", "--json").stdout)]
    first = inferometer("results", "list", "--limit", "1")
    assert "1 of 3 results. --limit, --offset and --after show more." in first.stderr
    second = inferometer("results", "list", "--limit", "1", "--after", whole[0])
    assert second.stdout.splitlines()[1].startswith(whole[1][:12])
    assert f"Continue with --after {whole[1][:12]}." in second.stderr
    assert inferometer("results", "list", "--after", whole[2]).stderr == "No results.\n"
    assert inferometer("results", "list", "--after", "f" * 12).code == 1


def test_a_condition_that_cannot_be_understood_ends_with_2(inferometer: Command, id_: str) -> None:
    """The message names the nearest field."""
    completed = inferometer("results", "list", "--where", "modle=x")
    assert completed.code == 2
    assert "Did you mean model?" in completed.stderr
    assert inferometer("results", "show", f"{id_}0").code == 1


@pytest.mark.parametrize(
    "command", [["list", "--where", "model=\udcff"], ["retract", "ID", "--reason", "\udcff"]]
)
def test_an_argument_that_is_no_text_is_refused(
    inferometer: Command, id_: str, command: list[str]
) -> None:
    """Its bytes are no UTF-8, and the shell passes them on."""
    completed = inferometer("results", *(id_ if each == "ID" else each for each in command))
    assert (completed.code, completed.stdout) == (2, "")
    assert "udcff' is not UTF-8. Check the arguments of the command." in completed.stderr


def test_a_result_is_shown_as_it_was_measured(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """As a table, as its document, and as a report."""
    assert "s0" in inferometer("results", "show", id_[:8]).stdout
    assert inferometer("results", "show", id_, "--json").stdout == Path(CLUSTER).read_text()
    page = tmp_path / "page.html"
    assert inferometer("results", "show", id_, "--report", str(page)).code == 0
    assert "<html" in page.read_text()


def test_a_report_that_cannot_be_written_is_named(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """A folder that is not there, and a folder in place of the file."""
    for place in (tmp_path / "none" / "page.html", tmp_path):
        failed = inferometer("results", "show", id_, "--report", str(place))
        assert failed.code == 1
        assert failed.stderr.startswith(f"inferometer: Cannot write {place}: ")


def test_a_report_for_a_device_is_written_to_the_device(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """A pipe stays one; what a device refuses is an error."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        found = pool.submit(pipe.read_text)
        assert inferometer("results", "show", id_, "--report", str(pipe)).code == 0
        assert "<html" in result_of(found, "the content of the pipe")
    assert pipe.is_fifo()
    failed = inferometer("results", "show", id_, "--report", "/dev/full")
    assert failed.code == 1
    assert "Cannot write /dev/full: No space left on device." in failed.stderr


@pytest.mark.parametrize("words", [("list", "--offset"), ("trend", "--limit")])
def test_a_number_that_no_database_holds_is_refused(
    inferometer: Command, words: tuple[str, str]
) -> None:
    """SQLite and PostgreSQL have whole numbers of 64 bits."""
    refused = inferometer("results", *words, str(2**63))
    assert refused.code == 2
    assert "No database can hold a value such as this one." in refused.stderr


def test_results_that_share_no_scenario_differ_in_it(inferometer: Command, id_: str) -> None:
    """The other conditions that differ are named too, before the comparison is refused."""
    assert inferometer("results", "import", str(KEPT / "1.1-local.json")).code == 0
    rows = json.loads(inferometer("results", "list", "--json").stdout)
    (other,) = (str(row["id"]) for row in rows if row["id"] != id_)
    refused = inferometer("results", "compare", id_, other)
    assert refused.code == 2
    assert "different scenario: s0, s1, s2 in A, latency, traffic" in refused.stderr
    assert "different engine: " in refused.stderr
    assert refused.stderr.endswith("have no scenario in common.\n")


def test_a_comparison_names_the_conditions_that_differ(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """Here that is the machine of the other one."""
    document = json.loads(a_document(1))
    document["environment"]["node"]["cpuModel"] = "Another CPU"
    other = tmp_path / "result.json"
    other.write_text(json.dumps(document))
    assert inferometer("results", "import", str(tmp_path)).code == 0
    ids = [row["id"] for row in json.loads(inferometer("results", "list", "--json").stdout)]
    (second,) = set(ids) - {id_}
    completed = inferometer("results", "compare", id_, second)
    assert completed.code == 0
    (line,) = [each for each in completed.stderr.splitlines() if each.startswith("different")]
    assert line.startswith("different node class: AMD EPYC, 2 CPUs")
    assert "Another CPU" in line
    assert "different" not in inferometer("results", "compare", id_, id_).stderr


@pytest.mark.parametrize("command", ["show", "compare"])
def test_a_document_of_a_newer_version_is_read_with_a_notice(
    inferometer: Command, id_: str, tmp_path: Path, command: str
) -> None:
    """It says that the command shows only what it knows."""
    document = json.loads(a_document(1)) | {"schemaVersion": "1.999"}
    (tmp_path / "result.json").write_text(json.dumps(document))
    assert inferometer("results", "import", str(tmp_path)).code == 0
    ids = [row["id"] for row in json.loads(inferometer("results", "list", "--json").stdout)]
    (newer,) = set(ids) - {id_}
    others = () if command == "show" else (id_,)
    completed = inferometer("results", command, newer, *others)
    assert completed.code == 0
    assert f"Result {newer} has schema version 1.999" in completed.stderr


def test_tags_and_retractions_are_kept_with_a_result(inferometer: Command, id_: str) -> None:
    """A retracted result leaves the list, until that is taken back."""
    assert inferometer("results", "tag", id_, "baseline").code == 0
    assert id_[:12] in inferometer("results", "list", "--where", "tag=baseline").stdout
    assert inferometer("results", "tag", id_, "baseline", "--remove").code == 0
    assert inferometer("results", "list", "--where", "tag=baseline").stdout == ""
    refused = inferometer("results", "retract", id_)
    assert (refused.code, "--reason" in refused.stderr) == (2, True)
    assert inferometer("results", "retract", id_, "--reason", "busy").code == 0
    assert inferometer("results", "list").stdout == ""
    assert "RETRACTED" in inferometer("results", "list", "--retracted").stdout
    assert inferometer("results", "retract", id_, "--undo").code == 0
    assert id_[:12] in inferometer("results", "list").stdout


def test_a_retraction_is_read_wherever_the_result_is(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """Table and report are shown after the reason, and nothing of it is judged."""
    assert "retracted" not in inferometer("results", "show", id_).stderr
    before = inferometer("results", "compare", id_, id_)
    assert "retracted" not in before.stdout + before.stderr
    assert inferometer("results", "retract", id_, "--reason", "A backup ran.").code == 0
    assert "This result is retracted: A backup ran." in inferometer("results", "show", id_).stderr
    page = tmp_path / "page.html"
    inferometer("results", "show", id_, "--report", str(page))
    assert "This result is retracted: A backup ran." in page.read_text()
    shown = inferometer("results", "compare", id_, id_).stderr
    for name in "AB":
        assert f"{name} is retracted, and not judged: A backup ran." in shown


@pytest.mark.parametrize("is_file", [False, True])
def test_a_retracted_result_is_not_pushed(
    inferometer: Command, id_: str, tmp_path: Path, *, is_file: bool
) -> None:
    """The cluster would count its figures; the message has the reason and what to do."""
    pushed = CLUSTER if is_file else id_
    push = ("results", "push", pushed, "--to", "bench", "--kubeconfig", str(tmp_path / "none"))
    assert inferometer("results", "retract", id_, "--reason", "a backup ran.").code == 0
    refused = inferometer(*push)
    assert refused.code == 2
    assert refused.stderr == (
        f"inferometer: Result {id_[:12]} is retracted: a backup ran. If its figures are right, "
        f"take the retraction back first: inferometer results retract {id_[:12]} --undo\n"
    )
    assert inferometer("results", "retract", id_, "--undo").code == 0
    assert str(tmp_path / "none") in inferometer(*push).stderr


def test_a_retracted_result_of_a_cluster_is_not_pushed(
    inferometer: Command, tmp_path: Path
) -> None:
    """An archive brought it, with its origin."""
    origin = Origin("operator", "2026-01-31T12:00:00.000Z", "cluster", "bench", "namespace")
    with Store(str(tmp_path / "kept" / "results.db")) as store:
        id_ = store.add(a_document(), origin, source="x").id
    assert inferometer("results", "retract", id_, "--reason", "a backup ran.").code == 0
    file = tmp_path / "a.json"
    file.write_bytes(a_document())
    for pushed in (id_, str(file)):
        refused = inferometer("results", "push", pushed, "--to", "bench")
        assert refused.code == 2
        assert f"Result {id_[:12]} is retracted: a backup ran." in refused.stderr


def test_a_file_is_pushed_without_a_database(
    inferometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is made to look for a retraction; one that cannot be opened is named."""
    push = ("results", "push", CLUSTER, "--to", "x", "--kubeconfig", str(tmp_path / "none"))
    assert str(tmp_path / "none") in inferometer(*push).stderr
    assert list(tmp_path.iterdir()) == []
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 1_000)
    monkeypatch.setenv("INFEROMETER_DATABASE", str(damaged))
    shown = inferometer(*push).stderr
    assert "Whether the result is retracted here is unknown." in shown
    assert str(damaged) in shown
    assert str(tmp_path / "none") in shown


def test_what_is_no_result_is_not_pushed(inferometer: Command, tmp_path: Path) -> None:
    """The command refuses it before it looks for a cluster."""
    file = tmp_path / "other.json"
    file.write_text("{}")
    refused = inferometer("results", "push", str(file), "--to", "x")
    assert refused.code == 2
    assert refused.stderr == (
        f"inferometer: {file} is not a result. Give a result.json that `inferometer run` wrote.\n"
    )


@pytest.mark.parametrize("name", ["s%20.db", "s.db?x", "s#1.db"])
def test_the_path_of_a_database_is_taken_as_it_is(
    inferometer: Command, tmp_path: Path, name: str
) -> None:
    """No sign in it has the meaning that it has in an address."""
    database = str(tmp_path / "x" / name)
    assert inferometer("results", "import", CLUSTER, "--database", database).code == 0
    assert [each.name for each in (tmp_path / "x").glob("s*")] == [name]


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["export", "--all"],
        ["tag", "a", "b"],
        ["reindex"],
        ["prune", "--keep-megabytes=1"],
    ],
)
def test_a_database_that_a_user_names_must_be_there(
    inferometer: Command, tmp_path: Path, command: list[str]
) -> None:
    """A wrong path is no empty database: an export of it would seem to be a backup."""
    missing = tmp_path / "missing.db"
    refused = inferometer("results", *command, "--database", str(missing))
    assert refused.code == 2
    assert f"There is no database {missing}. Check --database" in refused.stderr
    assert not missing.exists()


def test_an_export_of_nothing_says_so(inferometer: Command, tmp_path: Path) -> None:
    """An empty file is no backup that anybody wants."""
    empty = inferometer("results", "export", "--all", "--output", str(tmp_path / "all.jsonl"))
    assert "Nothing is exported: there are no results." in empty.stderr


@pytest.mark.parametrize(("option", "value"), [("--where", "model=a"), ("--format", "csv")])
def test_an_export_of_everything_takes_no_option_of_a_table(
    inferometer: Command, option: str, value: str
) -> None:
    """It would be an archive all the same."""
    refused = inferometer("results", "export", "--all", option, value)
    assert refused.code == 2
    assert f"leave {option} away" in refused.stderr


def test_a_condition_names_a_text_with_quotation_marks(inferometer: Command, id_: str) -> None:
    """They are doubled within those around the text."""
    assert inferometer("results", "tag", id_, 'a"b"').code == 0
    assert id_[:12] in inferometer("results", "list", "--where", 'tag="a""b"""').stdout
    assert "No results" in inferometer("results", "list", "--where", 'tag="a""b"').stderr
    for open_ended in ('tag="a""', 'tag="a"b"'):
        assert inferometer("results", "list", "--where", open_ended).code == 2


def test_figures_are_exported_for_other_programs(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """CSV and Parquet have a row for each measurement, JSON lines one for each result."""
    heading, *rows = inferometer("results", "export").stdout.splitlines()
    assert len(rows) == 4
    assert "p99_nanoseconds" in heading.split(",")
    (line,) = inferometer("results", "export", "--format", "jsonl").stdout.splitlines()
    assert json.loads(line)["id"] == id_
    file = tmp_path / "figures.parquet"
    assert inferometer("results", "export", "--format", "parquet").code == 2
    assert inferometer("results", "export", "--format", "parquet", "-o", str(file)).code == 0
    table = pyarrow.parquet.read_table(file)
    assert table.num_rows == 4
    assert {str(table.schema.field(name).type) for name in ("clients", "p99_nanoseconds")} == {
        "int64"
    }
    assert "null" not in {str(field.type) for field in table.schema}


def test_an_export_of_nothing_has_the_columns(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """Programs that read it find each one, in CSV and in Parquet."""
    assert id_
    full = inferometer("results", "export").stdout.splitlines()
    empty = inferometer("results", "export", "--where", "model=nothing").stdout.splitlines()
    assert empty == full[:1]
    files = [tmp_path / "full.parquet", tmp_path / "empty.parquet"]
    for file, where in zip(files, ("", "model=nothing"), strict=True):
        options = ("--format", "parquet", "--output", str(file), "--where", where)
        assert inferometer("results", "export", *options).code == 0
    whole, nothing = (pyarrow.parquet.read_table(file) for file in files)
    assert nothing.schema == whole.schema
    assert (whole.num_rows > 0, nothing.num_rows) == (True, 0)


@pytest.mark.parametrize("words", [("--all",), ("--format", "csv"), ("--format", "parquet")])
def test_an_export_that_fails_leaves_the_file_as_it_was(
    inferometer: Command,
    id_: str,
    tmp_path: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that fills in the middle: the earlier export stays, and there is no other file."""
    folder = tmp_path / "exports"
    folder.mkdir()
    file = folder / "figures"
    file.write_text("earlier")
    with monkeypatch.context() as full:
        full.setattr(transfer, "write_parquet", _write_on_a_full_disk)
        full.setattr(transfer_command, "_write", lambda file, _: _fill(file))
        completed = inferometer("results", "export", *words, "-o", str(file))
    assert completed.code == 1
    assert completed.stderr == (
        f"inferometer: Cannot write {file}: No space left on device. Nothing was exported.\n"
    )
    assert [each.name for each in folder.iterdir()] == ["figures"]
    assert file.read_text() == "earlier"
    assert inferometer("results", "export", *words, "-o", str(file)).code == 0
    assert file.read_bytes() != b"earlier"
    assert [each.name for each in folder.iterdir()] == ["figures"]


def _fill(file: IO[str]) -> None:
    file.write("half of a li")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _write_on_a_full_disk(_: object, path: Path) -> None:
    with path.open("w") as file:
        _fill(file)


def test_an_export_into_a_pipe_writes_the_pipe(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """A pipe is not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        found = reader.submit(pipe.read_text)
        assert inferometer("results", "export", "-o", str(pipe)).code == 0
        assert id_ in result_of(found, "the content of the pipe")
    assert pipe.is_fifo()


def test_a_whole_store_moves_to_another_machine(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """With its tags; what is known already is left as it is."""
    archive, other = str(tmp_path / "all.jsonl"), str(tmp_path / "other.db")
    inferometer("results", "tag", id_, "baseline")
    assert inferometer("results", "export", "--all", "-o", archive).code == 0
    completed = inferometer("results", "import", archive, "--database", other)
    assert completed.stderr == "1 kept, 0 known already, 0 refused.\n"
    found = inferometer("results", "list", "--where", "tag=baseline", "--database", other)
    assert id_[:12] in found.stdout
    completed = inferometer("results", "import", archive, CLUSTER)
    assert completed.stderr == "0 kept, 2 known already, 0 refused.\n"


def test_a_backup_brings_a_lost_database_back(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """As docs/how-to/keep-results.md says: export --all, then import into an empty database."""
    backup = str(tmp_path / "backup.jsonl")
    inferometer("results", "tag", id_, "baseline")
    before = inferometer("results", "list", "--json").stdout
    assert inferometer("results", "export", "--all", "-o", backup).code == 0
    for file in (tmp_path / "kept").iterdir():
        file.unlink()
    assert inferometer("results", "list").stderr == "No results.\n"
    assert inferometer("results", "import", backup).code == 0
    assert inferometer("results", "list", "--json").stdout == before


def test_a_result_reads_the_same_in_another_store(
    inferometer: Command, archive: Path, tmp_path: Path
) -> None:
    """It has nothing of its place in the store, which another result may have left before it."""
    other = str(tmp_path / "other.db")
    place = ("--database", other)
    local = KEPT / "1.1-local.json"
    assert inferometer("results", "import", str(local), *place).code == 0
    assert inferometer("results", "import", str(archive), *place).code == 0
    where = ("--where", "tag=baseline")
    for words in (("list", "--json"), ("export", "--format", "jsonl"), ("export",)):
        here = inferometer("results", *words, *where).stdout
        assert here
        assert inferometer("results", *words, *where, *place).stdout == here


def test_an_import_that_ends_early_says_what_it_kept(
    inferometer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves what was kept before it."""
    add = Store.add
    left = iter([True])

    def full(store: Store, content: bytes, origin: Origin, *, source: str) -> object:
        if not next(left, False):
            raise StoreError("The disk is full.")
        return add(store, content, origin, source=source)

    monkeypatch.setattr(Store, "add", full)
    failed = inferometer("results", "import", CLUSTER, CLUSTER)
    assert failed.code == 1
    assert failed.stderr == (
        "inferometer: The disk is full. Before that: 1 kept, 0 known already, 0 refused.\n"
    )


def test_what_cannot_be_imported_is_named_and_the_rest_is_kept(
    inferometer: Command, tmp_path: Path
) -> None:
    """The command ends with 1."""
    empty, broken = tmp_path / "empty", tmp_path / "result.json"
    endless = tmp_path / "endless.json"
    empty.mkdir()
    broken.write_text("{")
    document = json.loads(Path(CLUSTER).read_text(encoding="utf-8"))
    document["scenarios"][0]["repeat"] = 1e308
    endless.write_text(json.dumps(document))
    paths = [str(empty), str(broken), str(endless), CLUSTER, "none.json"]
    completed = inferometer("results", "import", *paths)
    assert completed.code == 1
    assert f"{endless} is damaged at scenarios.0.repeat." in completed.stderr
    assert f"{empty} holds no result.json." in completed.stderr
    assert f"{broken} is not JSON." in completed.stderr
    assert "Cannot read none.json: No such file or directory." in completed.stderr
    assert "1 kept, 0 known already, 4 refused." in completed.stderr


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_costs_one_file(
    inferometer: Command, tmp_path: Path, value: str
) -> None:
    """The message names its field; the next file is kept, and an export is JSON."""
    document = json.loads(a_document(1))
    document["scenarios"][0]["steps"][0]["achievedQps"] = "here"
    for name, text in (
        ("a", json.dumps(document).replace('"here"', value)),
        ("b", a_document(2).decode()),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(text)
    completed = inferometer("results", "import", str(tmp_path))
    assert completed.code == 1
    shown = value.replace("1e999", "Infinity")
    assert (
        f"{tmp_path / 'a' / 'result.json'} has {shown} at scenarios.0.steps.0.achievedQps, which "
        "is no finite number. Measure again.\n"
    ) in completed.stderr
    assert "1 kept, 0 known already, 1 refused." in completed.stderr
    exported = inferometer("results", "export", "--format", "jsonl").stdout
    assert len(exported.splitlines()) == 1
    assert "Infinity" not in exported


def test_an_archive_with_a_damaged_document_restores_the_rest(
    inferometer: Command, id_: str, archive: Path, tmp_path: Path
) -> None:
    """The counts are printed, and the command ends with 1."""
    archive.write_text(archive.read_text().replace('"content": "', '"content": "!', 1))
    other = ("--database", str(tmp_path / "other.db"))
    completed = inferometer("results", "import", str(archive), CLUSTER, *other)
    assert completed.code == 1
    assert f"what people added to result {id_[:12]} was left out" in completed.stderr
    assert "1 kept, 0 known already, 2 refused." in completed.stderr


def test_a_byte_that_is_not_utf_8_costs_one_line_of_an_archive(
    inferometer: Command, id_: str, archive: Path, tmp_path: Path
) -> None:
    """The line is named; the documents and tags on the other lines are restored."""
    first, *others = archive.read_bytes().splitlines(keepends=True)
    damaged = first.replace(b'"document": "', b'"document": "\xff', 1)
    archive.write_bytes(b"".join((damaged, first, *others)))
    other = ("--database", str(tmp_path / "other.db"))
    completed = inferometer("results", "import", str(archive), *other)
    assert completed.code == 1
    assert completed.stderr == (
        f"{archive}:1 is not a line of an archive.\n1 kept, 0 known already, 1 refused.\n"
    )
    found = inferometer("results", "list", "--where", "tag=baseline", *other)
    assert id_[:12] in found.stdout


def test_a_damaged_document_is_named_and_repaired_by_a_backup(
    inferometer: Command, id_: str, tmp_path: Path
) -> None:
    """`export --all` and `reindex` finish the others, and end with 1."""
    intact, backup = tmp_path / "result.json", tmp_path / "backup.jsonl"
    partial = tmp_path / "partial.jsonl"
    intact.write_bytes(a_document())
    assert inferometer("results", "import", str(intact)).code == 0
    before = inferometer("results", "list", "--json").stdout
    assert inferometer("results", "export", "--all", "-o", str(backup)).code == 0
    with sqlite3.connect(tmp_path / "kept" / "results.db") as connection:
        connection.execute("UPDATE document SET content = x'00' WHERE id = ?", [id_])
    connection.close()
    exported = inferometer("results", "export", "--all", "-o", str(partial))
    indexed = inferometer("results", "reindex")
    for completed, end in (
        (exported, "Left out, because they are damaged: 1. The others are exported.\n"),
        (indexed, "1 results indexed.\n"),
    ):
        assert completed.code == 1
        assert f"The document of result {id_} is damaged" in completed.stderr
        assert completed.stderr.endswith(end)
    assert partial.read_text() in backup.read_text()
    repaired = inferometer("results", "import", str(backup))
    assert repaired.stderr == (
        f"The document {id_} was damaged, and is whole again.\n"
        "0 kept, 2 known already, 0 refused.\n"
    )
    assert inferometer("results", "list", "--json").stdout == before


def test_results_are_deleted_and_pruned(inferometer: Command, id_: str) -> None:
    """A dry run only counts."""
    assert inferometer("results", "prune").code == 2
    beyond = inferometer("results", "prune", "--older-than-days", "1000000")
    assert (beyond.code, "less than or equal to 100000" in beyond.stderr) == (2, True)
    oldest = inferometer("results", "prune", "--older-than-days", "100000")
    assert oldest.stderr == "Results deleted: 0.\n"
    completed = inferometer("results", "prune", "--older-than-days", "0", "--dry-run")
    assert completed.stderr == "Results that would be deleted: 1.\n"
    assert inferometer("results", "delete", id_[:6]).stderr == "Results deleted: 1.\n"
    assert inferometer("results", "reindex").stderr == "0 results indexed.\n"
