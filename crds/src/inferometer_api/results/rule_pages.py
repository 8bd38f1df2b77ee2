"""Finds the page that explains a rule of the verdict."""

import shlex


def explain_command(rule: str) -> str:
    """Return the command that explains a rule, offline."""
    return f"inferometer explain {shlex.quote(rule)}"
