"""How do the reasons of conditions read as a reference page?"""

from docgen.reference_pages import HEADER
from inferometer_api.plan import deadlines
from inferometer_api.status.condition_reasons import REASONS, Place, Reason, ReasonName
from inferometer_api.status.run_status import ConditionType

_CONDITIONS: dict[ConditionType, str] = {
    "Accepted": "The spec is valid, this version can do it, and it is allowed. Judged until the "
    "run begins; never tried again.",
    "ServerReady": "Every server pod is ready. False says what it waits for.",
    "Measuring": "Load is sent, warm-up included. False says what it waits for, or how it ended.",
    "Complete": "Every scenario was measured. Absent where the run failed.",
    "Failed": "The run ended before it was complete; the message says why. Absent where it is "
    "complete.",
    "Valid": "Every scenario is VALID. Told at the end of every run.",
    "Finished": "The run is over, and what `retention.cleanup` deletes is gone. True at every end: "
    "`kubectl wait --for=condition=Finished bmr/NAME` always comes to an end.",
}
_INTRODUCTION = """\
What holds of a BenchmarkRun stands in `status.conditions`, each with a reason (one word, below) and
a message that says what was asked, what was found and what to do. `kubectl describe bmr NAME` shows
them."""


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
        "| condition | what it says |",
        "|---|---|",
        *(f"| `{name}` | {_cell(text)} |" for name, text in _CONDITIONS.items()),
        "",
        "## Reasons of a run that goes on or has ended",
        *_table(rest),
        "",
        "## What goes wrong",
        "",
        "A fault marked *heals* is shown at once and may pass; where it has not until",
        "`spec.server.readyDeadlineSeconds` are over, the run fails with it. Every other fault",
        "ends the run at once. A run that has begun to measure is stopped first, so that what was",
        "measured until then is kept.",
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
    head = ["", "| reason | conditions | what was found | what to do |", "|---|---|---|---|"]
    return [*head, *(_row(name, each) for name, each in reasons.items())]


def _row(name: str, reason: Reason) -> str:
    heals = " (*heals*)" if reason.is_transient else ""
    places = ", ".join(_place(place) for place in reason.places)
    return f"| `{name}`{heals} | {places} | {_cell(reason.meaning)} | {_cell(reason.remedy)} |"


def _place(place: Place) -> str:
    name, value = place
    return f"`{name}={value}`"


def _deadlines() -> list[str]:
    said = (
        (
            "spec.server.readyDeadlineSeconds",
            (
                "from the server's making until it is ready; for the "
                "load generator's pod to start at least as long, from its making"
            ),
        ),
        ("spec.activeDeadlineSeconds", "from `status.startTime` until the run is complete"),
        (
            f"{deadlines.NODE_LOST_SECONDS} s",
            (
                "for a node to answer again, from when the cluster "
                "marked its pods as not ready; the cluster itself usually deletes them before that"
            ),
        ),
        (
            f"{deadlines.STOP_SECONDS} s",
            (
                "for the load generator to end and to hand over what it "
                "measured, from when it was asked to"
            ),
        ),
        (f"{deadlines.KEPT_SECONDS} s", "for the API server to take the ConfigMaps of a result"),
        (
            f"{deadlines.GONE_SECONDS} s",
            "for a pod to go that is being deleted; then the run is Finished without it",
        ),
        (
            f"{deadlines.NAMESAKE_SECONDS} s",
            (
                "for what a deleted run of the same name has left to go, from when it first was "
                "in the way"
            ),
        ),
        (
            f"{deadlines.FORCED_SECONDS} s",
            "from the run's end until it is Finished, whatever is left of it",
        ),
        (
            f"{deadlines.APPEARS_SECONDS} s",
            (
                "for an object that the run names to appear, from when "
                "the run was made: both may come from one folder"
            ),
        ),
    )
    return [
        "| deadline | for what |",
        "|---|---|",
        *(f"| {_code(name)} | {_cell(text)} |" for name, text in said),
    ]


def _code(name: str) -> str:
    return f"`{name}`" if name.startswith("spec.") else name


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
