"""Which measurements may rank, stand on a front, or be a baseline."""

from collections.abc import Mapping
from typing import Any

from inferometer_results.profile import PROFILE_KIND
from inferometer_results.store.index_rows import USER


def why_not_ranked(row: Mapping[str, Any]) -> str:
    """Return why a measurement does not rank, "" if it does.

    The row has the columns of a measurement, and `retracted`, `outcome` and `source` of its result.
    """
    if row["retracted"] is not None:
        return f"retracted: {row['retracted']}"
    if row["outcome"] != "Complete":
        return f"{row['outcome'].upper()}: the run is not complete"
    if row["verdict"] != "VALID":
        return f"{row['verdict']}: {row['reasons']}" if row["reasons"] else str(row["verdict"])
    if row["kind"] == PROFILE_KIND:
        return "profiled"
    if row["source"] == USER:
        return "stored by a user"
    return ""
