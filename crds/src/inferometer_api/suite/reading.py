"""Reads a suite file and reports every problem in it."""

from collections.abc import Sequence

from inferometer_api.spec.reading import parse_document
from inferometer_api.spec.yaml_text import UnreadableTextError, read_yaml
from inferometer_api.suite.spec import BenchmarkSuite


def is_suite(text: str) -> bool:
    """Return whether a YAML or JSON text is meant as a BenchmarkSuite."""
    try:
        data = read_yaml(text).data
    except UnreadableTextError:
        return False
    return isinstance(data, dict) and data.get("kind") == BenchmarkSuite.__name__


def parse_suite(
    text: str, *, source: str, overrides: Sequence[tuple[str, str]] = ()
) -> BenchmarkSuite:
    """Return the suite in a text as `parse_run` does a run. Raises InvalidRunError."""
    return parse_document(text, BenchmarkSuite, source=source, overrides=overrides)
