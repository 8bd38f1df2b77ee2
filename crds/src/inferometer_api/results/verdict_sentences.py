"""Sentences about the verdict of a run, shared by the operator and the command line."""


def scenario_count(count: int) -> str:
    """Return "1 scenario" or "3 scenarios"."""
    return "1 scenario" if count == 1 else f"{count} scenarios"


def every_scenario(count: int) -> str:
    """Return the subject of a sentence about all scenarios of a run, with its verb."""
    match count:
        case 1:
            return "The scenario is"
        case 2:
            return "Both scenarios are"
        case _:
            return f"All {count} scenarios are"


def invalid_sentence(invalid: int, scenarios: int) -> str:
    """Return how many scenarios of a run are invalid."""
    if invalid >= scenarios:
        return f"{every_scenario(scenarios)} invalid."
    verb = "is" if invalid == 1 else "are"
    return f"{invalid} of {scenario_count(scenarios)} {verb} invalid."


def valid_sentence(scenarios: int, cautions: int) -> str:
    """Return that all scenarios of a run are valid, with the number of distinct cautions."""
    note = {0: "", 1: ", with one caution"}.get(cautions, f", with {cautions} cautions")
    return f"{every_scenario(scenarios)} valid{note}."
