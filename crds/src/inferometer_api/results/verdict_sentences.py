"""Sentences about the verdict of a run, shared by the operator and the command line."""


def scenario_count(count: int) -> str:
    """Return "1 scenario" or "3 scenarios"."""
    return "1 scenario" if count == 1 else f"{count} scenarios"


def valid_sentence(scenarios: int, cautions: int) -> str:
    """Return that all scenarios of a run are valid, with the number of distinct cautions."""
    which = "The scenario is" if scenarios == 1 else f"All {scenario_count(scenarios)} are"
    note = {0: "", 1: ", with one caution"}.get(cautions, f", with {cautions} cautions")
    return f"{which} valid{note}."
