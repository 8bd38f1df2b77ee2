"""The layer database: timings of layers in the store, as documents next to results."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Connection, insert, select

from inferometer_api.layers.timings import LayerTimings
from inferometer_api.results.reading import version_notice
from inferometer_api.results.result import ResultDocument
from inferometer_results.store.database import describing
from inferometer_results.store.documents import content_of
from inferometer_results.store.tables import DOCUMENT, content_columns

if TYPE_CHECKING:
    from inferometer_results.store.store import Store

KIND = "LayerTimings"
_NAME_LENGTH = 200
_PAGE = 50


def keep_timings(store: "Store", timings: LayerTimings, received_at: str, source: str) -> bool:
    """Keep what was timed together as one document; return False if the store had it already."""
    row = _row(timings, {"received_at": received_at, "source": source})
    with describing(store.address), store.engine.begin() as connection:
        if connection.scalar(select(DOCUMENT.c.id).where(DOCUMENT.c.id == row["id"])) is not None:
            return False
        connection.execute(insert(DOCUMENT).values(row))
    return True


def measured_in(document: ResultDocument) -> Iterator[LayerTimings]:
    """Yield the timings of layers that the steps of a result have."""
    for scenario in document.scenarios:
        for step in scenario.steps:
            if step.layers is not None and step.layers.timings is not None:
                yield step.layers.timings


def insert_measured(
    connection: Connection, document: ResultDocument, result: Mapping[str, Any]
) -> None:
    """Keep the timings of a result next to it; `result` is the result's own row."""
    names = ("cluster_uid", "run_uid", "namespace", "namespace_uid", "received_at")
    origin = {name: result[name] for name in names} | {"source": "run"}
    for timings in measured_in(document):
        row = _row(timings, origin)
        if connection.scalar(select(DOCUMENT.c.id).where(DOCUMENT.c.id == row["id"])) is None:
            connection.execute(insert(DOCUMENT).values(row))


def _row(timings: LayerTimings, origin: Mapping[str, str]) -> dict[str, Any]:
    content = timings.model_dump_json(exclude_none=True).encode()
    columns = content_columns(content)
    owner = origin.get("namespace_uid", "")
    return {
        "id": hashlib.sha256(f"{KIND}\0{owner}\0{columns['sha256']}".encode()).hexdigest()[:32],
        "kind": KIND,
        "cluster_uid": "",
        "run_uid": "",
        "namespace": "",
        "namespace_uid": "",
        "name": timings.machine.name[:_NAME_LENGTH],
        **columns,
        **origin,
    }


def known_timings(
    store: "Store",
    machine: str,
    threads: int,
    engines: Mapping[str, str],
    *,
    with_graphs: bool = False,
) -> LayerTimings | None:
    """Return all timings of a machine, its engines and a number of threads; None without any.

    Of one brick, and of one layer, engine and precision, the newest counts; of the reference, the
    fastest. Models and variants are left out, and graphs are unless they are wanted.
    """
    found: LayerTimings | None = None
    for timings in _documents(store, machine, left_out="" if with_graphs else "graphs"):
        if timings.machine.name != machine or timings.machine.threads != threads:
            continue
        some = _of_engines(timings, engines)
        if some.bricks or some.kernels or some.failed:
            found = some if found is None else joined(found, some)
    return found


def all_timings(store: "Store") -> Iterator[LayerTimings]:
    """Yield the documents of all machines, oldest first."""
    return _documents(store, None)


def _documents(
    store: "Store", machine: str | None, *, left_out: str = ""
) -> Iterator[LayerTimings]:
    """Yield the documents that can be read, of a machine or of all, without one of their fields."""
    columns = (DOCUMENT.c.number, DOCUMENT.c.content, DOCUMENT.c.sha256)
    query = select(*columns).where(DOCUMENT.c.kind == KIND).order_by(DOCUMENT.c.number)
    if machine is not None:
        query = query.where(DOCUMENT.c.name == machine[:_NAME_LENGTH])
    last = 0
    while rows := store.select(query.where(DOCUMENT.c.number > last).limit(_PAGE)):
        for row in rows:
            content = content_of(row["content"], row["sha256"])
            if content is not None and (timings := read_timings(content, left_out)) is not None:
                yield timings
        last = rows[-1]["number"]


def read_timings(content: bytes, left_out: str = "") -> LayerTimings | None:
    """Return the timings in a document, without one of its fields; None if it cannot be read.

    Large models have more layers than a map of other documents may have entries.
    """
    try:
        fields = orjson.loads(content)
        found = LayerTimings.read({name: fields[name] for name in fields if name != left_out})
        version_notice(found, "The document")
    except (ValueError, TypeError):
        return None
    return found


def _of_engines(timings: LayerTimings, engines: Mapping[str, str]) -> LayerTimings:
    """Return the timings by those engines that had these versions."""
    same = {name for name, each in timings.machine.engines.items() if engines.get(name) == each}
    return timings.model_copy(
        update={
            "bricks": timings.bricks if "onnxruntime" in same else {},
            "kernels": [each for each in timings.kernels if each.engine in same],
            "failed": [each for each in timings.failed if each.engine in same],
            "models": {},
            "variants": {},
        }
    )


def joined(old: LayerTimings, new: LayerTimings) -> LayerTimings:
    """Return the timings of two documents of one machine; the newer ones replace the older."""
    bricks = old.bricks | new.bricks
    kernels = {(each.key, each.engine, each.precision): each for each in old.kernels + new.kernels}
    timed = {*bricks, *(each.key for each in kernels.values())}
    failed = {
        (each.key, each.engine): each for each in old.failed + new.failed if each.key not in timed
    }
    calls = new if new.run_nanoseconds else old
    reference = _fastest(old, new)
    return new.model_copy(
        update={
            "run_nanoseconds": calls.run_nanoseconds,
            "node_nanoseconds": calls.node_nanoseconds,
            "reference_nanoseconds": reference.reference_nanoseconds,
            "reference_spread_nanoseconds": reference.reference_spread_nanoseconds,
            "seconds": old.seconds + new.seconds,
            "bricks": bricks,
            "kernels": list(kernels.values()),
            "failed": list(failed.values()),
            "graphs": old.graphs + new.graphs,
        }
    )


def _fastest(old: LayerTimings, new: LayerTimings) -> LayerTimings:
    """Return those with the shortest time of the reference."""
    found = [each for each in (new, old) if each.reference_nanoseconds]
    return min(found, key=lambda each: each.reference_nanoseconds, default=new)
