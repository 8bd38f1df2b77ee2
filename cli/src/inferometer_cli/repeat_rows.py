"""How do the repeats of scenarios read in a terminal: mean, interval, and how many it takes?"""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from inferometer_api.results.search import Repeated
from inferometer_cli.grid import Row, print_rows, print_sentences, printable
from inferometer_results.wording.search import (
    FIGURE_HEADINGS,
    figure_name,
    figure_texts,
    figures_shown,
)

_HEADER = ("over repeats", "scenario", *FIGURE_HEADINGS)


def print_repeats(repeated: Sequence[Repeated], console: Console) -> None:
    """Print a row for each figure of each scenario that was repeated, and the advice."""
    rows = [
        Row(
            figure_name(figure),
            printable(", ".join(part for part in (each.name, figure.step) if part)),
            figure_texts(figure),
        )
        for each in repeated
        for figure in figures_shown(each)
    ]
    if not rows:
        return
    print_rows(_HEADER, rows, console)
    told = [f"{each.name}: {each.advice}" for each in repeated if each.advice]
    print_sentences((Text(printable(sentence), style="dim") for sentence in told), console)
    console.print()
