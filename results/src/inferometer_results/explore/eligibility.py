"""Decides which measurements may rank, stand on a front, or be a baseline."""

from collections.abc import Mapping
from typing import Any

from inferometer_results.store.index_rows import USER


def why_not_counted(result: Mapping[str, Any], *, is_profiled: bool) -> str:
    """Return why no measurement of a result ranks or has a history, "" if they may.

    `is_profiled` states whether a profiler ran in any scenario of the result.
    """
    if result["retracted"] is not None:
        return f"retracted: {result['retracted']}"
    if result["outcome"] != "Complete":
        return f"{result['outcome'].upper()}: the run is not complete"
    if is_profiled:
        return "profiled: the run has a profile scenario"
    return ""


def why_not_ranked(row: Mapping[str, Any]) -> str:
    """Return why a measurement does not rank, "" if it does.

    The row is one of `store.summaries.measurements`.
    """
    why = why_not_counted(row, is_profiled=row["is_profiled"])
    if why:
        return why
    if row["verdict"] != "VALID":
        return f"{row['verdict']}: {row['reasons']}" if row["reasons"] else str(row["verdict"])
    if row["source"] == USER:
        return "stored by a user"
    return ""
