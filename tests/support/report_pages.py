"""Reads the page of a result."""

import re
from html import unescape

from inferometer_api.results.result import ResultDocument
from inferometer_results.report import render_report


def alone(document: ResultDocument, index: int = 0) -> ResultDocument:
    """Return the result with one of its scenarios only."""
    return document.model_copy(update={"scenarios": [document.scenarios[index]]})


def titles(html: str) -> list[str]:
    """Return the titles of a page's charts, in order."""
    return re.findall(r"<figure><h\d>(.*?)</h\d>", html)


def text_of(document: ResultDocument) -> str:
    """Return all words of a result's page, with single spaces."""
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", render_report(document)).split()))
