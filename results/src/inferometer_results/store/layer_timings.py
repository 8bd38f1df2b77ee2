"""Timings of layers in the store: documents of a kind of their own, next to results."""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import insert, select

from inferometer_analysis.bound import Timing
from inferometer_results.store.database import describing
from inferometer_results.store.store import Store
from inferometer_results.store.tables import DOCUMENT

KIND = "LayerTimings"


@dataclass(frozen=True, slots=True)
class TimingConditions:
    """The conditions under which timings hold: other ones have timings of their own."""

    machine: str
    """Processor, number of CPUs and kernel."""
    threads: int
    versions: Mapping[str, str]
    """The version of each engine."""

    def to_json(self, engine: str) -> str:
        """Return the conditions of one engine's timings as text."""
        version = self.versions.get(engine, "")
        return json.dumps([self.machine, self.threads, engine, version])


def keep_timings(
    store: Store, conditions: TimingConditions, timings: Sequence[Timing], received_at: str
) -> None:
    """Keep timings that were measured together as one document."""
    rows = [
        {
            "conditions": conditions.to_json(each.engine),
            "key": each.key,
            "engine": each.engine,
            "precision": each.precision,
            "nanoseconds": each.nanoseconds,
        }
        for each in timings
    ]
    content = json.dumps(rows).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    row = {
        "id": hashlib.sha256(f"{KIND}\0{received_at}\0{sha256}".encode()).hexdigest()[:32],
        "kind": KIND,
        "cluster_uid": "",
        "run_uid": "",
        "namespace": "",
        "name": conditions.machine[:200],
        "source": "bound",
        "received_at": received_at,
        "sha256": sha256,
        "bytes": len(content),
        "content": zlib.compress(content, 9),
    }
    with describing(store.address), store.engine.begin() as connection:
        connection.execute(insert(DOCUMENT).values(row))


def known_timings(store: Store, conditions: TimingConditions) -> list[Timing]:
    """Return the timings under these conditions; of one key and engine the newest."""
    wanted = {conditions.to_json(engine) for engine in conditions.versions}
    query = select(DOCUMENT.c.content).where(DOCUMENT.c.kind == KIND).order_by(DOCUMENT.c.number)
    found: dict[tuple[str, str, str], Timing] = {}
    with describing(store.address), store.engine.connect() as connection:
        for content in connection.scalars(query):
            for row in json.loads(zlib.decompress(content)):
                if row["conditions"] in wanted:
                    timing = Timing(row["key"], row["engine"], row["precision"], row["nanoseconds"])
                    found[timing.key, timing.engine, timing.precision] = timing
    return list(found.values())
