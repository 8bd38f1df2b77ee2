"""`inferometer explain`: what a rule of the verdict means, and what to do."""

from typing import Annotated

import typer

from inferometer_cli.exits import RefusedError
from inferometer_cli.terminal import flushed_output, output_console, print_output


def _rules_from(begin: str) -> list[str]:
    """Return the rules that a shell may complete."""
    from inferometer_results.rules import rule_pages

    return [name for name in rule_pages() if name.startswith(begin)]


_Rule = Annotated[
    str | None,
    typer.Argument(
        metavar="RULE",
        help="Such as BusyMachine. Without it: list all rules.",
        autocompletion=_rules_from,
    ),
]


def explain(rule: _Rule = None) -> None:
    """Explain a rule that makes a run INVALID or adds a caution: limit, what to do, and why."""
    from rich.text import Text

    from inferometer_api.spec.problems import nearest
    from inferometer_cli.text_table import print_sentences
    from inferometer_results.rules import rule_pages

    pages = rule_pages()
    if rule is None:
        width = max(map(len, pages))
        print_output("\n".join(f"{each.name:<{width}}  {each.effect}" for each in pages.values()))
        return
    by_lower_case = {name.lower(): page for name, page in pages.items()}
    page = by_lower_case.get(rule.lower())
    if page is None:
        near = nearest(rule, list(pages))
        hint = f"Did you mean {near}?" if near else "`inferometer explain` lists all rules."
        raise RefusedError(f"There is no rule {rule}. {hint}")
    lines = [
        Text.assemble((page.name, "bold"), f": {page.effect}"),
        Text(f"Limit: {page.limit}."),
        Text(""),
        Text("What to do", "bold"),
        *map(Text, page.what_to_do),
        Text(""),
        Text("Definition", "bold"),
        *map(Text, page.definition),
    ]
    with flushed_output():
        print_sentences(lines, output_console())
