"""The command `inferometer node` where it does not measure everything, and who uses its figures."""

import platform
from datetime import UTC, datetime
from pathlib import Path

from inferometer_api.timestamps import format_time
from inferometer_cli.result_store import open_store
from inferometer_results.store.node_characteristics import keep_characteristics
from inferometer_serving.node.machine import machine_identity
from support.inferometer_process import result_in, run_file, started
from support.node_documents import a_figure, a_node_document
from support.onnx_models import identity, save


def test_a_name_that_begins_nothing_is_refused(tmp_path: Path) -> None:
    """The command measures and keeps nothing, and lists the names that there are."""
    database = tmp_path / "results.db"
    with started(tmp_path, "node", "--only", "dsk", "--database", str(database)) as process:
        ended = process.ended(60)
    assert ended.code == 2
    assert "There is no primitive or figure whose name begins with 'dsk'" in ended.stderr
    assert "disk/read" in ended.stderr
    assert not database.exists()


def test_a_run_on_an_unfit_machine_warns_and_notes_it(tmp_path: Path) -> None:
    """What the node benchmark found is printed before the load, and stays with the result."""
    database = tmp_path / "results.db"
    document = a_node_document(platform.node(), figures=[a_figure("jitter/share", "share", 0.82)])
    now = format_time(datetime.now(UTC))
    with open_store(str(database)) as store:
        measured = {"machine": machine_identity(), "finished_at": now}
        keep_characteristics(store, document.model_copy(update=measured))
    save(identity(), tmp_path / "model.onnx")
    run_file(tmp_path, {"server": {"targetQps": 20}})
    environment = {"INFEROMETER_DATABASE": str(database)}
    with started(tmp_path, "run", "run.yaml", "-o", "out", env=environment) as process:
        ended = process.ended()
    before, measuring, _ = ended.stderr.partition("s0 (1/1): measuring")
    assert measuring, before
    assert "warning: When `inferometer node` measured this machine on 2026-01-01, " in before
    found = result_in(tmp_path / "out").environment
    assert found is not None
    assert any("stood still for 82.0% of the time" in each for each in found.notes)
