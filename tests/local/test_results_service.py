"""`inferometer results serve` as a process: it answers over HTTP, and ends on Ctrl-C."""

import json
import re
import urllib.request
from pathlib import Path

from inferometer_results.store.store import Store
from support.inferometer_process import started
from support.stored_results import ORIGIN, a_document


def test_a_served_store_is_read_until_ctrl_c(tmp_path: Path) -> None:
    """Pages and API answer at the printed address; the end is that of any command."""
    database = str(tmp_path / "results.db")
    with Store(database) as store:
        id_ = store.add(a_document(), ORIGIN, source="x").id
    words = ("results", "serve", "--port", "0", "--database", database)
    with started(tmp_path, *words) as process:
        process.wait_for("Ctrl-C ends it")
        found = re.search(r"Results: (http://127\.0\.0\.1:\d+/) ", process._text("stderr"))
        assert found is not None
        address = found[1]
        with urllib.request.urlopen(f"{address}api/v1/results", timeout=60) as answer:  # noqa: S310
            assert json.load(answer)["items"][0]["id"] == id_
            assert answer.headers["server"] is None
        head = urllib.request.Request(f"{address}results/{id_}", method="HEAD")  # noqa: S310
        with urllib.request.urlopen(head, timeout=60) as answer:  # noqa: S310
            assert (answer.status, answer.read()) == (200, b"")
        assert process.press_ctrl_c().ended().code == 130
