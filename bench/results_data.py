"""Results for the benchmarks of the store: the first example's own, and thousands like it."""

import functools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.processes import ROOT, BenchError
from sqlalchemy import insert

from inferometer_api.results.reading import read_result
from inferometer_api.suite.labels import EXECUTION_LABEL
from inferometer_results.store.index_rows import (
    IndexRows,
    Origin,
    best_figures,
    index_rows,
    node_set,
)
from inferometer_results.store.index_tables import insert_rows
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT, content_columns

EXAMPLE = ROOT / "examples" / "01-resnet50-cpu.yaml"
_MEASURED = (0, 3)
_AT_ONCE = 2_000
_MODELS, _NODES, _NAMESPACES, _RUNS, _TEAMS = 70, 40, 50, 300, 9
_MINUTES_OF_A_YEAR = 525_600
SUITE = "nightly"
"""One result in 100 belongs to it, 50 to an execution."""
_SEED = 20261124


def scaled(count: int) -> int:
    """Return a number of results, times $INFEROMETER_BENCH_SCALE: 0.01 tries a case out."""
    return max(20, round(count * float(os.environ.get("INFEROMETER_BENCH_SCALE", "1"))))


@functools.cache
def first_example() -> bytes:
    """Return the result of the first example, measured once here. Raises BenchError.

    $INFEROMETER_BENCH_EXAMPLE names a result that is taken instead.
    """
    given = os.environ.get("INFEROMETER_BENCH_EXAMPLE")
    if given:
        return Path(given).read_bytes()
    with TemporaryDirectory(prefix="inferometer-example-") as folder:
        command = [sys.executable, "-m", "inferometer_cli", "run", str(EXAMPLE), "--no-save"]
        found = subprocess.run(
            [*command, "--output", f"{folder}/out"],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        if found.returncode not in _MEASURED:
            raise BenchError(f"The first example failed: {(found.stdout + found.stderr)[-2000:]}")
        return Path(folder, "out", "result.json").read_bytes()


def documents(first: int, count: int) -> Iterator[bytes]:
    """Yield so many results of the first example, each of a run of its own."""
    whole: dict[str, Any] = json.loads(first_example())
    for number in range(first, first + count):
        yield json.dumps(whole | {"runId": f"run-{number:08}"}).encode()


def bulk_load(store: Store, count: int) -> float:
    """Fill an empty store with results of other models, nodes and times; return the seconds.

    Every document is that of the first example; the rows of the index vary, so that there is
    something to search.
    """
    began = time.monotonic()
    content = first_example()
    read = read_result(content, source="the first example")
    shared = {
        "kind": "BenchmarkResult",
        "cluster_uid": "",
        "source": "operator",
        "received_at": "2026-01-01T00:00:00.000Z",
        **content_columns(content),
    }
    template = index_rows("", 0, read, Origin("operator", ""), [])
    chance = random.Random(_SEED)  # noqa: S311 - no secret
    for start in range(1, count + 1, _AT_ONCE):
        numbers = range(start, min(count + 1, start + _AT_ONCE))
        _insert(store, shared, [_varied(number, template, chance) for number in numbers])
    if store.engine.dialect.name == "postgresql":
        # Its own autovacuum would do so within minutes, next to the first requests.
        with store.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql("VACUUM (ANALYZE)")
    return time.monotonic() - began


def _insert(store: Store, shared: dict[str, Any], indexed: Sequence[IndexRows]) -> None:
    rows = [each.result for each in indexed]
    own = ("id", "number", "run_uid", "namespace", "name")
    with store.engine.begin() as connection:
        connection.execute(
            insert(DOCUMENT), [shared | {name: row[name] for name in own} for row in rows]
        )
        insert_rows(connection, indexed)


def _varied(number: int, rows: IndexRows, chance: random.Random) -> IndexRows:
    """Return the rows of the first example as if another model had been measured elsewhere."""
    id_ = f"{number * 2654435761 % 2**64:016x}{number:016x}"
    minute = number * 7 % _MINUTES_OF_A_YEAR
    started = f"2026-{minute // 44_640 + 1:02}-{minute // 1440 % 28 + 1:02}"
    model = chance.randrange(_MODELS)
    result = rows.result | {
        "id": id_,
        "number": number,
        "run_uid": f"run-{number:08}",
        "namespace": f"team-{number % _NAMESPACES}",
        "name": f"run-{number % _RUNS}",
        "started_at": f"{started}T{minute // 60 % 24:02}:{minute % 60:02}:00.{number % 1000:03}Z",
        "verdict": "VALID" if number % 7 else "INVALID",
        "model": f"model-{model}",
        "model_sha256": f"{model:064x}",
        "node": f"node-{chance.randrange(_NODES)}",
        "protocol": "HTTP" if number % 2 else "GRPC",
        "spec_digest": spec_digest(number),
        "suite": SUITE if number % 100 == 0 else "",
    }
    result["words"] = "\n".join(
        str(result[name]) for name in ("name", "namespace", "verdict", "model", "engine", "node")
    ).lower()
    measurements = [
        each | {"result_number": number} | _figures(chance.lognormvariate(16, 1), model)
        for each in rows.measurements
    ]
    named = {"team": f"t{number % _TEAMS}"}
    if result["suite"]:
        named[EXECUTION_LABEL] = str(number // 5_000)
    labels = [
        {"result_number": number, "origin": "run", "name": name, "value": value}
        for name, value in named.items()
    ]
    nodes = node_set(result, labels)
    result |= best_figures(measurements) | {"node_set": nodes["key"]}
    return IndexRows(result, measurements, labels, rows.conditions, [nodes])


def spec_digest(number: int) -> str:
    """Return the digest of the specification of a result."""
    return f"{number % _RUNS:016x}"


def _figures(nanoseconds: float, model: int) -> dict[str, Any]:
    return {
        "qps": 1e9 / nanoseconds,
        "samples_per_second": 1e9 / nanoseconds,
        "p50_nanoseconds": int(nanoseconds),
        "p90_nanoseconds": int(1.2 * nanoseconds),
        "p99_nanoseconds": int(2 * nanoseconds),
        "p999_nanoseconds": int(3 * nanoseconds),
        "key": f"{model:016x}",
    }
