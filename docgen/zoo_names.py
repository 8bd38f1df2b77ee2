"""The names of the model zoo, as a module of the API.

Components without models, such as the operator, refuse a misspelt name by them.
"""

import csv

from docgen.field_tables import HEADER
from docgen.files import CHECKOUT

_INDEX = CHECKOUT / "models" / "src" / "inferometer_models" / "graphs" / "index.csv"


def zoo_names() -> str:
    """Return the text of the module with the full name of each built-in model, sorted."""
    rows = csv.DictReader(_INDEX.read_text(encoding="utf-8").splitlines())
    names = sorted(f"{row['task']}/{row['name']}" for row in rows)
    return "\n".join(
        (
            '"""Names of the built-in models."""',
            "",
            f"# {HEADER}",
            "",
            "ZOO_NAMES: tuple[str, ...] = (",
            *(f'    "{name}",' for name in names),
            ")",
            '"""TASK/NAME of each model in the zoo, sorted."""',
            "",
        )
    )
