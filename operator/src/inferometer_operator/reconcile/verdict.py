"""Is what a run measured valid?"""

from inferometer_api.status.run_status import RunStatus
from inferometer_operator.reconcile.conditions import ConditionUpdate

_REASON_CHARACTERS = 400


def valid_condition(status: RunStatus, asked: int) -> ConditionUpdate:
    """Return the condition Valid of a complete run of so many scenarios."""
    invalid = [each for each in status.scenarios if each.verdict == "INVALID"]
    if invalid:
        told = "; ".join(
            f"{each.name}: {' '.join(each.reasons)[:_REASON_CHARACTERS] or 'see the result'}"
            for each in invalid
        )
        many = f"{len(invalid)} of {_scenarios(asked)} {'is' if len(invalid) == 1 else 'are'}"
        return ConditionUpdate("Valid", "False", "Invalid", f"{many} INVALID. {told}")
    if len(status.scenarios) < asked:
        found = f"Only {len(status.scenarios)} of {_scenarios(asked)} are told in the summary."
        return ConditionUpdate("Valid", "False", "NotComplete", found)
    # What holds of several scenarios is one caution, as the tables of the CLI show it.
    cautions = len({caution for each in status.scenarios for caution in each.cautions})
    beside = f", with {cautions} caution{'' if cautions == 1 else 's'}" if cautions else ""
    which = "The scenario is" if asked == 1 else f"All {_scenarios(asked)} are"
    return ConditionUpdate("Valid", "True", "AllValid", f"{which} VALID{beside}.")


def incomplete_condition(status: RunStatus, asked: int | None) -> ConditionUpdate:
    """Return the condition Valid of a failed run."""
    if not status.scenarios or asked is None:
        found = "The run did not complete; nothing was measured."
    else:
        kept = f"{len(status.scenarios)} of {_scenarios(asked)}"
        found = f"The run did not complete; kept is what was measured until then: {kept}."
    return ConditionUpdate("Valid", "False", "NotComplete", found)


def _scenarios(count: int) -> str:
    return "1 scenario" if count == 1 else f"{count} scenarios"
