"""The report of a load generator in a pod: its answer at /progress and its termination message."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from inferometer_api.document import Count, Document, Sha256
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.result import Outcome
from inferometer_api.status.run_status import ScenarioSummary

TERMINATION_MESSAGE_BYTES = 4096
"""The longest termination message that Kubernetes keeps."""


PROGRESS_BYTES = 1024 * 1024
"""Longest answer of /progress."""


MOST_STEPS_REPORTED = 2000
"""Steps in a report, over all scenarios: the operator parses as few objects as that."""


Omission = Literal[
    "progress", "steps", "cautions", "reasons", "percentiles", "message", "scenarios"
]

_LISTS: tuple[Omission, ...] = ("steps", "cautions", "reasons")
"""Lists of each scenario, in the order in which they are left out."""


class LoadReport(Document):
    """What a load generator answers at /progress, and leaves as its termination message."""

    progress: ProgressReport | None = None
    scenarios: list[ScenarioSummary] = Field(default_factory=list)
    """Measured scenarios."""
    outcome: Outcome | None = None
    """How the run ended, once it has."""
    document_sha256: Sha256 | None = None
    """SHA-256 of the result document in the log, once it is written."""
    document_bytes: Count = 0
    """Size of the document, even if it was too large for the log."""
    document_missing_reason: str = ""
    """Why the log of a finished load generator holds no result document: a sentence."""
    omitted: list[Omission] = Field(default_factory=list)
    """Parts that were dropped or shortened to make the report fit."""


def report_within(report: LoadReport, limit_bytes: int = TERMINATION_MESSAGE_BYTES) -> bytes:
    """Return a report as JSON of at most so many bytes (2,048 or more), leaving out what it must.

    Figures of single steps go first, then cautions, reasons, percentiles but the 99th with the
    servers' times, the end of a long message, and last the scenarios that no longer fit; `omitted`
    names what went.
    """
    shortened = report
    for shortened in _ever_shorter(report):
        encoded = _encoded(shortened)
        if len(encoded) <= limit_bytes:
            return encoded
    fits, too_many = 0, len(shortened.scenarios)
    while too_many - fits > 1:
        tried = (fits + too_many) // 2
        if len(_encoded(_with_scenarios(shortened, tried))) <= limit_bytes:
            fits = tried
        else:
            too_many = tried
    return _encoded(_with_scenarios(shortened, fits))


def _ever_shorter(report: LoadReport) -> Iterator[LoadReport]:
    if sum(len(each.steps) for each in report.scenarios) > MOST_STEPS_REPORTED:
        report = _without_lists(report, "steps")
    yield report
    if report.progress is not None and report.outcome is not None:
        report = _without(report, "progress", progress=None)
        yield report
    for what in _LISTS:
        if any(getattr(each, what) for each in report.scenarios):
            report = _without_lists(report, what)
            yield report
    if report.scenarios:
        absent = dict.fromkeys(
            ("p50_microseconds", "p90_microseconds", "p999_microseconds", "server_time")
        )
        cut = [each.model_copy(update=absent) for each in report.scenarios]
        report = _without(report, "percentiles", scenarios=cut)
        yield report
    message_text = (
        report.outcome.message if report.outcome else ""
    ) + report.document_missing_reason
    for most in (600, 60):
        if len(message_text) > most:
            report = _with_messages(report, most)
            yield report
    if report.progress is not None:
        report = _without(report, "progress", progress=None)
        yield report


def _without_lists(report: LoadReport, what: Omission) -> LoadReport:
    cut = [each.model_copy(update={what: []}) for each in report.scenarios]
    return _without(report, what, scenarios=cut)


def _without(report: LoadReport, what: Omission, **update: object) -> LoadReport:
    omitted = [*report.omitted, *([] if what in report.omitted else [what])]
    return report.model_copy(update={**update, "omitted": omitted})


def _with_messages(report: LoadReport, most: int) -> LoadReport:
    outcome = report.outcome
    if outcome is not None:
        words = {"message": _cut(outcome.message, most), "reason": outcome.reason[:60]}
        outcome = outcome.model_copy(update=words)
    return _without(
        report,
        "message",
        outcome=outcome,
        document_missing_reason=_cut(report.document_missing_reason, most),
    )


def _with_scenarios(report: LoadReport, count: int) -> LoadReport:
    return _without(report, "scenarios", scenarios=report.scenarios[:count])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _encoded(report: LoadReport) -> bytes:
    return report.model_dump_json(exclude_defaults=True).encode()
