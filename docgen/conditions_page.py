"""docs/reference/conditions.md: the conditions of a run, their reasons, and the deadlines."""

from docgen.field_tables import HEADER
from inferometer_api.plan import deadlines
from inferometer_api.status.condition_reasons import REASONS, Place, Reason, ReasonName
from inferometer_api.status.run_status import ConditionType

_CONDITIONS: dict[ConditionType, str] = {
    "Accepted": "The spec is valid, supported and allowed. Checked until the run starts.",
    "ServerReady": "Every server pod is ready. False: the message says what the run waits for.",
    "Measuring": "Load is being sent, including warm-up. False: the message says what the run "
    "waits for, or how the measurement ended.",
    "Complete": "Every scenario was measured. Absent if the run failed.",
    "Failed": "The run ended early; the message says why. Absent if the run is complete.",
    "Valid": "Every scenario is VALID. Set at the end of every run.",
    "Finished": "The run is over, and the objects that `retention.cleanup` deletes are gone. Set "
    "at the end of every run.",
}
_INTRODUCTION = """\
For users whose run waits or failed. `kubectl describe bmr NAME` shows the conditions of a run, each
with a reason and a message. Look the reason up below for what it means and what to do.

To wait for the end of a run, use `kubectl wait --for=condition=Finished bmr/NAME`: every run ends
with this condition."""


def conditions_page() -> str:
    """Return docs/reference/conditions.md, made from the catalogue of reasons."""
    faults = {name: each for name, each in REASONS.items() if _is_fault(each)}
    rest = {name: each for name, each in REASONS.items() if name not in faults}
    lines = [
        f"<!-- {HEADER} -->",
        "# Conditions of a BenchmarkRun",
        "",
        _INTRODUCTION,
        "",
        "## Conditions",
        "",
        "| condition | meaning if True |",
        "|---|---|",
        *(f"| `{name}` | {_cell(text)} |" for name, text in _CONDITIONS.items()),
        "",
        "## Reasons of normal states",
        *_table(rest),
        "",
        "## Reasons of faults",
        "",
        "A fault marked *transient* may pass: the run waits for that, and fails only if the",
        "fault lasts until `spec.server.readyDeadlineSeconds` are over. Every other fault",
        "ends the run at once. A run that already measures is stopped first, and its measurements",
        "are kept.",
        *_table(faults),
        "",
        "## Deadlines",
        "",
        *_deadlines(),
    ]
    return "\n".join(lines) + "\n"


def _is_fault(reason: Reason) -> bool:
    waits = {("ServerReady", "False"), ("Measuring", "False")}
    failed = ("Failed", "True")
    refused = ("Accepted", "False") in reason.places
    alone = reason.places == (failed,)
    return not refused and (alone or bool(waits & set(reason.places) and failed in reason.places))


def _table(reasons: dict[ReasonName, Reason]) -> list[str]:
    head = ["", "| reason | conditions | meaning | what to do |", "|---|---|---|---|"]
    return [*head, *(_row(name, each) for name, each in reasons.items())]


def _row(name: str, reason: Reason) -> str:
    transient = " (*transient*)" if reason.is_transient else ""
    places = ", ".join(_place(place) for place in reason.places)
    return f"| `{name}`{transient} | {places} | {_cell(reason.meaning)} | {_cell(reason.remedy)} |"


def _place(place: Place) -> str:
    name, value = place
    return f"`{name}={value}`"


def _deadlines() -> list[str]:
    rows = (
        (
            "spec.server.readyDeadlineSeconds",
            (
                "From the creation of the server until it is ready. The load generator's pod has "
                "at least as long to start."
            ),
        ),
        ("spec.activeDeadlineSeconds", "From `status.startTime` until the run is complete."),
        (
            f"{deadlines.NODE_LOST_SECONDS} s",
            (
                "For a node to respond again after the cluster marked its pods as not ready. The "
                "cluster usually deletes them earlier."
            ),
        ),
        (
            f"{deadlines.STOP_SECONDS} s",
            "For the load generator to stop and hand over its measurements.",
        ),
        (
            f"`spec.activeDeadlineSeconds` + {deadlines.RESULT_SECONDS} s",
            (
                "From `status.startTime` for a result to be read and kept, as long as the load "
                "generator's pod exists."
            ),
        ),
        (
            f"{deadlines.SERVER_KEPT_SECONDS} s",
            "For a result to be read and kept before the server is deleted without it.",
        ),
        (
            f"{deadlines.GONE_SECONDS} s",
            "For a deleted pod to disappear. After that the run is Finished without it.",
        ),
        (
            f"{deadlines.NAMESAKE_SECONDS} s",
            "For the objects of a deleted run of the same name to disappear, once they conflict.",
        ),
        (
            f"{deadlines.FORCED_SECONDS} s",
            "From the end of the run until it is Finished, even if some objects remain.",
        ),
        (
            f"{deadlines.APPEARS_SECONDS} s",
            (
                "For an object that the run names to appear after the run was created: both may "
                "come from one folder."
            ),
        ),
    )
    return [
        "| deadline | what it limits |",
        "|---|---|",
        *(f"| {_code(name)} | {_cell(text)} |" for name, text in rows),
    ]


def _code(name: str) -> str:
    return f"`{name}`" if name.startswith("spec.") else name


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
