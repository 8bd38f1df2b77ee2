"""Lists of runtimes by what their descriptors support, as a module of the spec.

The rules of a run need them, and the descriptors import the spec. `python -m docgen.runtime_lists`
writes the module first: what is generated from those rules follows.
"""

from collections.abc import Sequence

from docgen.field_tables import HEADER
from docgen.files import CHECKOUT, write
from inferometer_api.runtimes.table import runtimes_that

RUNTIME_LISTS = "crds/src/inferometer_api/spec/runtime_lists.py"
"""The path of the module in the checkout."""


def runtime_lists() -> str:
    """Return the text of the module."""
    several = runtimes_that(lambda each: each.holds_several_models)
    steps = runtimes_that(lambda each: each.runs_steps)
    return "\n".join(
        (
            '"""Runtimes by what their descriptors support, for the rules of a run."""',
            "",
            f"# {HEADER}",
            "",
            *_listed("HOLD_SEVERAL_MODELS", several, "Runtimes with which otherModels can be set."),
            *_listed("RUN_STEPS", steps, "Runtimes with which pipeline can be Server."),
            "",
        )
    )


def _listed(name: str, runtimes: Sequence[str], docstring: str) -> tuple[str, ...]:
    rows = (f'    "{each}",' for each in runtimes)
    return (f"{name}: tuple[str, ...] = (", *rows, ")", f'"""{docstring}"""')


if __name__ == "__main__":
    write({RUNTIME_LISTS: runtime_lists()}, CHECKOUT)
