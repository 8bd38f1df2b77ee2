"""A result in the formats of other programs: spreadsheets, scripts, CI servers, Prometheus."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from inferometer_api.results.result import ResultDocument
from inferometer_results.export.junit import junit
from inferometer_results.export.markdown import markdown
from inferometer_results.export.openmetrics import openmetrics
from inferometer_results.export.rows import csv_rows, json_rows

FORMATS: Mapping[str, Callable[[ResultDocument], str]] = MappingProxyType(
    {
        "csv": csv_rows,
        "json": json_rows,
        "junit": junit,
        "markdown": markdown,
        "openmetrics": openmetrics,
    }
)
"""Functions that return a result in a format, by its name. Each text ends with a line feed."""
