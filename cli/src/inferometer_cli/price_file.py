"""The price list that commands take: what an hour of a node costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferometer_cli.exits import RefusedError

if TYPE_CHECKING:
    from inferometer_results.explore.prices import PriceList

PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        envvar="INFEROMETER_PRICES",
        help="YAML price list of nodes; adds what a million inferences cost.",
        show_default=False,
        show_envvar=True,
    ),
]


def load_prices(file: Path | None) -> "PriceList | None":
    """Return the price list in a file, None without a file. Raises RefusedError."""
    if file is None:
        return None
    from inferometer_results.explore.prices import PriceListError, read_prices

    try:
        return read_prices(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"Cannot read the price list {file}: {error}.") from error
    except PriceListError as error:
        raise RefusedError(str(error)) from error
