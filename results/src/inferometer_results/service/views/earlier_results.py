"""Earlier results of the same specification."""

from typing import Any

from inferometer_results.explore.prices import PriceList
from inferometer_results.service.views.run_list import Column, ListedRun, every_column, listed_run
from inferometer_results.store.query import Search
from inferometer_results.store.store import Store

_MOST_LISTED = 10
_COLUMNS = (
    "started", "stack", "node", "scenario", "verdict", "qps", "p50", "p99", "energy", "cost",
)  # fmt: skip


def earlier_columns(prices: PriceList | None) -> list[Column]:
    """Return the columns of their table."""
    return [each for each in every_column(prices) if each.name in _COLUMNS]


def earlier_results(store: Store, row: dict[str, Any], prices: PriceList | None) -> list[ListedRun]:
    """Return results of the same specification that started before this one, newest first."""
    if not row["spec_digest"]:
        return []
    where = f'spec={row["spec_digest"]} and started<"{row["started_at"]}"'
    found = store.find(Search(where, limit=_MOST_LISTED))
    return [listed_run(each, earlier_columns(prices), prices) for each in found]
