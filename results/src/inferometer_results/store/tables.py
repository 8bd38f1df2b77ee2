"""The tables of the store.

`document` and `journal` are the truth, and only ever added to, except when a user deletes a result
or the content of a document is damaged and arrives again.
`result`, `measurement`, `label`, `conditions` and `node_set` are an index of them that `reindex`
makes anew.
"""

import hashlib
import zlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
)
from sqlalchemy.engine import Dialect
from typing_extensions import override

from inferometer_api.timestamps import format_time, parse_time

METADATA = MetaData()

_SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers only rows of type INTEGER by itself."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TIMES = range(
    (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND,
    (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND + 1,
)


def unix_milliseconds(text: str) -> int | None:
    """Return a time as milliseconds since 1970, None if there is no such time in UTC."""
    moment = parse_time(text)
    if moment is None:
        return None
    found = (moment - _EPOCH) // _MILLISECOND
    return found if found in _TIMES else None


class Instant(TypeDecorator[str]):
    """A time of a document, kept as milliseconds since 1970.

    So it takes less room in the indexes than its text, and is compared faster. It is read in UTC. A
    text that is no time counts as the first of 1970.
    """

    impl = BigInteger
    cache_ok = True

    @override
    def process_bind_param(self, value: str | None, dialect: Dialect) -> int | None:
        """Return the number of a text."""
        return None if value is None else unix_milliseconds(value) or 0

    @override
    def process_result_value(self, value: int | None, dialect: Dialect) -> str | None:
        """Return the text of a number."""
        return None if value is None else _time_text(value)


@lru_cache(maxsize=4096)
def _time_text(milliseconds: int) -> str:
    """Return a time as text: rows of the measurements of one result have the same one."""
    return format_time(_EPOCH + milliseconds * _MILLISECOND)


DOCUMENT = Table(
    "document",
    METADATA,
    Column("number", _SERIAL, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("cluster_uid", String, nullable=False),
    Column("run_uid", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("namespace_uid", String, nullable=False, server_default=""),
    Column("name", String, nullable=False),
    Column("source", String, nullable=False),
    Column("received_at", String, nullable=False),
    Column("sha256", String, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
"""Each document as it was received, compressed by zlib: results, and those of other kinds."""

JOURNAL = Table(
    "journal",
    METADATA,
    Column("number", _SERIAL, primary_key=True),
    Column("at", String, nullable=False),
    Column("by", String, nullable=False),
    Column("action", String, nullable=False),
    Column("document_id", String, nullable=False, index=True),
    Column("text", String, nullable=False),
)
"""What people added: tags, retractions, and findings about change points."""

_NUMBER = "document.number"

FIGURES = {
    "batch": "batch_size",
    "clients": "clients",
    "queries": "queries",
    "errors": "errors",
    "qps": "qps",
    "samples": "samples_per_second",
    "peak": "peak_qps",
    "p50": "p50_nanoseconds",
    "p90": "p90_nanoseconds",
    "p99": "p99_nanoseconds",
    "p999": "p999_nanoseconds",
    "energy": "microjoules_per_inference",
}
"""The figures of a measurement by which results are sorted: their columns."""
_RATES = {"qps", "samples", "peak"}


def best_column(figure: str) -> str:
    """Return the column of a result that holds the best value of a figure."""
    return f"best_{figure}"


RESULT = Table(
    "result",
    METADATA,
    Column("id", String, ForeignKey("document.id", ondelete="CASCADE"), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("retracted", String),
    Column("words", String, nullable=False, server_default=""),
    Column("cluster_uid", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("namespace_uid", String, nullable=False, server_default=""),
    Column("name", String, nullable=False),
    Column("run_uid", String, nullable=False),
    Column("source", String, nullable=False),
    Column("received_at", Instant, nullable=False, server_default="0"),
    Column("started_at", Instant, nullable=False, server_default="0"),
    Column("finished_at", Instant, nullable=False, server_default="0"),
    Column("outcome", String, nullable=False),
    Column("verdict", String, nullable=False),
    Column("place", String, nullable=False),
    Column("suite", String, nullable=False),
    Column("model", String, nullable=False),
    Column("model_version", String, nullable=False),
    Column("model_sha256", String, nullable=False),
    Column("runtime", String, nullable=False),
    Column("engine", String, nullable=False),
    Column("server", String, nullable=False),
    Column("device", String, nullable=False),
    Column("protocol", String, nullable=False),
    Column("node", String, nullable=False),
    Column("cpu", String, nullable=False),
    Column("gpu", String, nullable=False),
    Column("inferometer_version", String, nullable=False),
    Column("schema_version", String, nullable=False),
    Column("notice", String, nullable=False),
    Column("spec_digest", String, nullable=False, server_default=""),
    Column("node_set", String, nullable=False, server_default=""),
    *(Column(best_column(name), Double if name in _RATES else BigInteger) for name in FIGURES),
)
"""One row for each result document.

`words` is what a search by words looks at, in lower case. It stands first, because such a search
reads every row, and a database passes over all columns before the one that it looks at. `node_set`
is the key of the nodes that served the result. A column `best_FIGURE` is the figure by which the
result is sorted: that of its best VALID scenario.
"""
_ELSEWHERE = {"retracted", "words", "node_set", *map(best_column, FIGURES)}
_shown = [each.name for each in RESULT.columns if each.name not in _ELSEWHERE]
_shown.insert(_shown.index("verdict") + 1, "retracted")
SHOWN = tuple(RESULT.c[name] for name in (*_shown, "words"))
"""The columns of a result that its readers see, in the order in which they see them."""

MEASUREMENT = Table(
    "measurement",
    METADATA,
    Column("result_number", BigInteger, ForeignKey(_NUMBER, ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("scenario", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("step", String, nullable=False),
    Column("headline", Boolean, nullable=False),
    Column("verdict", String, nullable=False),
    Column("reasons", String, nullable=False),
    Column("batch_size", BigInteger, nullable=False),
    Column("clients", BigInteger),
    Column("queries", BigInteger, nullable=False),
    Column("errors", BigInteger, nullable=False),
    Column("scheduled_qps", Double),
    Column("qps", Double, nullable=False),
    Column("samples_per_second", Double, nullable=False),
    Column("peak_qps", Double),
    Column("p50_nanoseconds", BigInteger),
    Column("p90_nanoseconds", BigInteger),
    Column("p99_nanoseconds", BigInteger),
    Column("p999_nanoseconds", BigInteger),
    Column("microjoules_per_inference", BigInteger),
    Column("key", String, nullable=False),
)
"""One row for each step of each repeat of each scenario. `headline` marks the step that stands for
its scenario. Rows name their result by its number, which is shorter than its ID."""

LABEL = Table(
    "label",
    METADATA,
    Column("result_number", BigInteger, ForeignKey(_NUMBER, ondelete="CASCADE"), primary_key=True),
    Column("origin", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)
"""Labels of the run (origin "run") and tags of people (origin "tag", without a value)."""

CONDITIONS = Table(
    "conditions",
    METADATA,
    Column("key", String, primary_key=True),
    Column("content", String, nullable=False),
)
"""The comparability keys of measurements: by digest, the conditions as JSON."""

NODE_SET = Table(
    "node_set",
    METADATA,
    Column("key", String, primary_key=True),
    Column("content", String, nullable=False),
)
"""The sets of nodes that served results, by what a price list can name: by digest, as JSON."""

SCHEMA_VERSION = Table(
    "alembic_version", METADATA, Column("version_num", String(32), primary_key=True)
)
"""The revision of these tables, by the name that Alembic gives it; see `migrations`."""

# Documents of other kinds than results are few, and found by this index.
Index("document_by_kind", DOCUMENT.c.kind, DOCUMENT.c.name)
# Lists in the order of time are found by this index alone.
Index("result_by_time", RESULT.c.started_at, RESULT.c.number, RESULT.c.id, RESULT.c.retracted)
# Counts of conditions on figures look results up by this alone.
Index("result_by_number", RESULT.c.number, RESULT.c.retracted)
# Models, nodes and suites are counted by these alone. Lists in the order of a field, in which the
# newest of equal results comes first, continue at any place of these.
for _name in (
    *("namespace", "namespace_uid", "name", "model_sha256", "runtime", "verdict", "model"),
    *("node", "suite", "cluster_uid", "source", "outcome", "model_version", "engine"),
    *("server", "device", "protocol", "cpu", "gpu"),
    *map(best_column, FIGURES),
):
    Index(
        f"result_by_{_name}",
        RESULT.c[_name].desc(),
        RESULT.c.started_at,
        RESULT.c.number,
        RESULT.c.retracted,
    )
Index(
    "result_by_place",
    *(RESULT.c[each] for each in ("node", "model", "started_at", "retracted")),
)
Index(
    "result_by_spec",
    *(RESULT.c[each] for each in ("spec_digest", "node", "started_at", "retracted")),
)
# Lists in the order of cost compute that of every result from this one.
Index(
    "result_by_cost",
    *(RESULT.c[each] for each in ("node_set", "best_samples", "started_at", "number")),
    *(RESULT.c[each] for each in ("retracted", "id")),
)
# Conditions on a figure are answered by these alone.
for _figure, _column in (
    ("p50", "p50_nanoseconds"),
    ("p99", "p99_nanoseconds"),
    ("qps", "qps"),
    ("energy", "microjoules_per_inference"),
    ("errors", "errors"),
):
    Index(
        f"measurement_by_{_figure}",
        *(MEASUREMENT.c[each] for each in (_column, "result_number", "verdict")),
    )
Index("measurement_by_key", MEASUREMENT.c.key)
Index("label_by_name", LABEL.c.name, LABEL.c.value, LABEL.c.origin, LABEL.c.result_number)

INDEX_TABLES = (LABEL, MEASUREMENT, CONDITIONS, NODE_SET, RESULT)
"""The tables of the index, in an order in which they can be emptied."""


def content_columns(content: bytes) -> dict[str, Any]:
    """Return the columns of a document that follow from its content, which is kept compressed."""
    return {
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        # The highest level takes three times as long, for 3 % less.
        "content": zlib.compress(content, 7),
    }
