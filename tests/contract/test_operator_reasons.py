"""What is documented of conditions is what the operator says, and nothing else."""

import re
from pathlib import Path
from typing import get_args

from docgen.conditions_page import conditions_page
from docgen.files import CHECKOUT

from inferometer_api.patterns import REASON
from inferometer_api.status.condition_reasons import REASONS, ReasonName
from inferometer_api.status.run_status import ConditionType
from support.condition_rows import PROGRESS_ROWS
from support.fault_rows import FAULT_ROWS

OF_THE_EDGES = {("Failed", "True", "OperatorFailed")}
"""Reasons that only an internal error gives; the tests of the edges cover them."""


def test_every_reason_of_the_catalogue_has_its_row_and_every_row_its_reason() -> None:
    """Every documented reason has a course of events, and every reason given is documented."""
    tested = {(*row.place, row.reason) for row in (*PROGRESS_ROWS, *FAULT_ROWS)}
    documented = {(*place, name) for name, each in REASONS.items() for place in each.places}
    assert documented - tested - OF_THE_EDGES == set()
    assert tested - documented == set()


def test_the_names_are_those_of_the_catalogue() -> None:
    """The type of a reason's name has every name once, each a word that the API takes."""
    assert list(get_args(ReasonName)) == list(dict.fromkeys(get_args(ReasonName)))
    assert set(get_args(ReasonName)) == set(REASONS)
    assert all(re.fullmatch(REASON, name) for name in REASONS)


def test_the_words_are_sentences() -> None:
    """Meaning and remedy are whole sentences; a fault says what to do."""
    for name, each in REASONS.items():
        assert each.meaning.endswith("."), name
        assert not each.remedy or each.remedy.endswith("."), name
        if ("Failed", "True") in each.places and name != "Failed":
            assert each.remedy, name


def test_the_page_has_every_condition_and_reason() -> None:
    """docs/reference/conditions.md names all there is, and is the generated one."""
    page = (Path(CHECKOUT) / "docs/reference/conditions.md").read_text(encoding="utf-8")
    assert page == conditions_page()
    for name in (*get_args(ConditionType), *REASONS):
        assert f"| `{name}`" in page
