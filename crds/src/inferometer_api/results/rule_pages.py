"""Addresses of the pages that explain the rules of the verdict."""

from urllib.parse import quote

DOCS_URL = "https://inferometer.dev/docs"
"""Where the folder `docs` is published."""


def how_to_url(rule: str) -> str:
    """Return the address of the section on what to do about a reason for INVALID."""
    return f"{DOCS_URL}/how-to/invalid.md#{_section(rule)}"


def reference_url(rule: str) -> str:
    """Return the address of the section that defines a rule."""
    return f"{DOCS_URL}/reference/verdict.md#{_section(rule)}"


def _section(rule: str) -> str:
    return quote(rule.lower(), safe="")
