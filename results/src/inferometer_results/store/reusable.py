"""Stored results that may stand for runs of a suite: equal in spec, model, images and node."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import select

from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.reuse import ReusableResult, ReuseAnswer, ReuseQuery, ReuseRequest
from inferometer_results.store.index_tables import PAGE
from inferometer_results.store.store import Store
from inferometer_results.store.tables import CONDITIONS, DOCUMENT, MEASUREMENT, RESULT

_MOST_EXAMINED = 100
"""Newest results of one spec and node; of another image or model are those that were replaced."""
_ZOO = "zoo://"
Row = dict[str, Any]


def find_reusable(store: Store, cluster_uid: str, request: ReuseRequest) -> ReuseAnswer:
    """Return the results that are equal to each query, as far as the store may be read.

    They are VALID, not retracted, and delivered by an operator of this cluster. A model's checksum
    does not cover external data, which may have changed: a result with such data is equal to none,
    unless the model is one of the zoo, which are always the same.
    """
    found = [
        _candidates(store, cluster_uid, request.stored_before, each) for each in request.queries
    ]
    measurements = _measurements(store, {row["number"] for rows in found for row in rows})
    images = _images(store, measurements)

    def equal_to(query: ReuseQuery, rows: Sequence[Row]) -> Iterator[ReusableResult]:
        wanted = sorted(map(_digest, query.images))
        for row in rows:
            is_same = images.get(row["number"]) == wanted
            if is_same and (query.model_sha256 is None or _is_whole(store, row["id"])):
                yield _reusable(row, measurements[row["number"]])

    return ReuseAnswer(
        results=[
            list(islice(equal_to(query, rows), query.most))
            for query, rows in zip(request.queries, found, strict=True)
        ]
    )


def _candidates(store: Store, cluster_uid: str, stored_before: str, query: ReuseQuery) -> list[Row]:
    known_model = RESULT.c.model_sha256 == (query.model_sha256 or "")
    statement = (
        select(RESULT.c.id, RESULT.c.number, RESULT.c.name, RESULT.c.started_at)
        .join(DOCUMENT, DOCUMENT.c.id == RESULT.c.id)
        .where(
            RESULT.c.spec_digest == query.spec_digest,
            RESULT.c.node == query.node,
            RESULT.c.verdict == "VALID",
            RESULT.c.outcome == "Complete",
            RESULT.c.retracted.is_(None),
            RESULT.c.source == "operator",
            RESULT.c.cluster_uid == cluster_uid,
            RESULT.c.received_at < stored_before,
            known_model if query.model_sha256 is not None else RESULT.c.model_sha256 != "",
        )
        .order_by(RESULT.c.started_at.desc(), RESULT.c.id)
        .limit(_MOST_EXAMINED + query.most)
    )
    return store.select(statement)


def _measurements(store: Store, numbers: Collection[int]) -> dict[int, list[Row]]:
    """Return the headline measurements of results in their order, by the number of the result."""
    found: dict[int, list[Row]] = {number: [] for number in numbers}
    for some in _portions(found):
        statement = (
            select(MEASUREMENT)
            .where(MEASUREMENT.c.result_number.in_(some), MEASUREMENT.c.headline)
            .order_by(MEASUREMENT.c.result_number, MEASUREMENT.c.position)
        )
        for row in store.select(statement):
            found[row["result_number"]].append(row)
    return found


def _images(store: Store, measurements: Mapping[int, Sequence[Row]]) -> dict[int, list[str]]:
    """Return the digests of the images of each result that has any."""
    keys = {number: rows[0]["key"] for number, rows in measurements.items() if rows}
    known = {
        row["key"]: json.loads(row["content"]).get("image", "")
        for some in _portions(set(keys.values()))
        for row in store.select(select(CONDITIONS).where(CONDITIONS.c.key.in_(some)))
    }
    return {
        number: sorted(map(_digest, known[key].split(", ")))
        for number, key in keys.items()
        if known.get(key)
    }


def _is_whole(store: Store, id_: str) -> bool:
    """Return whether the checksum of a result's model stands for the whole model."""
    document = json.loads(store.read(id_).content)
    if (document["run"]["spec"]["model"].get("uri") or "").startswith(_ZOO):
        return True
    settings = (document.get("environment") or {}).get("server", {}).get("settings", {})
    data: str = settings.get("external_data_sha256", "{}")
    return data == "{}"


def _portions(values: Collection[Any]) -> Iterator[list[Any]]:
    """Yield some at a time: a statement has a limit."""
    in_order = sorted(values)
    for start in range(0, len(in_order), PAGE):
        yield in_order[start : start + PAGE]


def _digest(image: str) -> str:
    """Return the digest of an image that is named by one: "REPOSITORY@sha256:..."."""
    return image.rpartition("@")[2]


def _reusable(row: Row, measurements: Sequence[Row]) -> ReusableResult:
    return ReusableResult(
        id=row["id"],
        run=row["name"],
        started_at=row["started_at"],
        scenarios=[_summary(each) for each in measurements],
    )


def _summary(row: Row) -> ScenarioSummary:
    return ScenarioSummary(
        name=row["scenario"],
        repeat=row["repeat"],
        verdict="VALID" if row["verdict"] == "VALID" else "INVALID",
        peak_milli_qps=_scaled(row["peak_qps"], 1000),
        achieved_milli_qps=_scaled(row["qps"], 1000),
        scheduled_milli_qps=_scaled(row["scheduled_qps"], 1000),
        p50_microseconds=_scaled(row["p50_nanoseconds"], 1e-3),
        p99_microseconds=_scaled(row["p99_nanoseconds"], 1e-3),
    )


def _scaled(value: float | None, factor: float) -> int | None:
    return None if value is None else round(value * factor)
