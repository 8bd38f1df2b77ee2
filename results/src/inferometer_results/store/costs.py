"""The cost of a million inferences of a result, as an expression that the database computes."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, case, cast, func, literal, null, select

from inferometer_results.store.tables import NODE_SET, RESULT

Price = Callable[[Mapping[str, Any]], float | None]
"""Returns what an hour of a set of nodes costs, None if that is not known."""

_MILLION_SECONDS = 1e6 / 3600


@dataclass(frozen=True, slots=True)
class Costs:
    """The prices of the sets of nodes that results ran on."""

    sets: Mapping[float, Sequence[str]]
    """By what an hour costs."""

    def per_million(self, samples_per_second: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the cost of a result at a rate; NULL without a price or a rate."""
        prices = [
            (RESULT.c.node_set.in_(keys), literal(per_hour * _MILLION_SECONDS))
            for per_hour, keys in self.sets.items()
        ]
        price = case(*prices, else_=null()) if prices else null()
        return cast(price, Double) / func.nullif(samples_per_second, 0.0)


def read_costs(connection: Connection, price: Price) -> Costs:
    """Return the prices of all sets of nodes."""
    found: dict[float, list[str]] = {}
    for row in connection.execute(select(NODE_SET).order_by(NODE_SET.c.key)):
        per_hour = price(json.loads(row.content))
        if per_hour is not None:
            found.setdefault(per_hour, []).append(row.key)
    return Costs(found)
