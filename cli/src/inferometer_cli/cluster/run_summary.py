"""The state of a run in a cluster, in a few lines: phase, progress, outcome."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from inferometer_api.results.verdict_sentences import (
    invalid_sentence,
    scenario_count,
    valid_sentence,
)
from inferometer_api.status.condition_reasons import ReasonName
from inferometer_api.status.run_status import Condition, RunStatus
from inferometer_api.timestamps import parse_time
from inferometer_api.wording import as_sentence
from inferometer_cli.cluster.runs import SeenRun
from inferometer_cli.exits import ExitCode
from inferometer_cli.terminal import printable
from inferometer_cli.text_table import STYLES
from inferometer_results.headline import Headline

REFUSED_REASONS: frozenset[ReasonName] = frozenset(
    {
        "AccessDenied",
        "InputRefused",
        "InvalidPlan",
        "ModelRefused",
        "ProtocolMismatch",
        "Redirected",
        "RequestRefused",
        "ServerRefused",
        "ServicePortNotFound",
        "TaskRefused",
        "TlsRefused",
    }
)
"""Failures that mean the accepted run cannot be carried out: exit code 2, as locally."""
_LAST_EVENTS = 5
_EVENT_LENGTH = 160
"""An event that says more says it in a condition too."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event of a run."""

    at: str
    """RFC 3339."""
    type: str
    reason: str
    message: str
    count: int = 1
    written: int = 0
    """Orders the events of one second."""


def exit_code_of(run: SeenRun) -> ExitCode:
    """Return the exit code that a run's state stands for; 0 while it has not ended."""
    failed = run.condition("Failed")
    if failed is not None and failed.status == "True":
        accepted = run.condition("Accepted")
        refused = accepted is not None and accepted.status == "False"
        return ExitCode.REFUSED if refused or failed.reason in REFUSED_REASONS else ExitCode.FAILED
    if run.holds("Complete") and not run.holds("Valid"):
        return ExitCode.INVALID
    return ExitCode.VALID


def headline(run: SeenRun) -> Headline:
    """Return the state or outcome of a run in the words of a local run."""
    scenarios = run.status.scenarios
    names = {summary.name for summary in scenarios}
    total = len(run.spec.get("scenarios", ())) or len(names)
    failed = run.condition("Failed")
    if failed is not None and failed.status == "True":
        word = "REFUSED" if exit_code_of(run) is ExitCode.REFUSED else "FAILED"
        measured = f" {len(names)} of {scenario_count(total)} measured." if names else ""
        return Headline(word, "unfinished", f"{_sentence(failed)}{measured}")
    if not run.holds("Complete"):
        return Headline(_phase(run.status).upper(), "unfinished", _going_on(run, total))
    if not run.holds("Valid"):
        invalid = {summary.name for summary in scenarios if summary.verdict == "INVALID"}
        return Headline("INVALID", "bad", invalid_sentence(len(invalid), total))
    cautions = len({caution for summary in scenarios for caution in summary.cautions})
    return Headline("VALID", "good", valid_sentence(total, cautions))


def head_lines(run: SeenRun, now: datetime) -> Iterator[str]:
    """Yield the lines that identify the run, and say its phase and its times."""
    status = run.status
    yield f"run       {run.namespace}/{run.name}"
    progress = status.progress_percent
    # A run that has ended has no progress, and a waiting one has none yet.
    far = "" if progress is None or run.has_ended else f", {progress} % measured"
    yield f"phase     {_phase(status)}{far}"
    if status.display is not None and status.display.scenario:
        figures = [status.display.qps and f"{status.display.qps} queries/s"]
        figures.append(status.display.p99 and f"p99 {status.display.p99}")
        spent = status.display.joules_per_inference
        figures.append(spent and f"{spent} per inference")
        shown = "  ".join(printable(figure) for figure in figures if figure)
        yield f"scenario  {printable(status.display.scenario)}  {shown}".rstrip()
    if status.nodes:
        yield f"nodes     {', '.join(map(printable, status.nodes))}"
    times = (("created", run.created_at), ("started", status.start_time))
    for word, at in (*times, ("ended", status.completion_time), ("deleted", run.deleted_at)):
        if at:
            yield f"{word:<8}  {at}{_ago(at, now)}"


def condition_lines(run: SeenRun) -> Iterator[str]:
    """Yield a line for each condition: its status, reason and message, each message once."""
    conditions = run.status.conditions
    if not conditions:
        yield "No conditions yet: no operator has accepted the run."
        return
    types = max(len(condition.type) for condition in conditions)
    reasons = max(len(condition.reason) for condition in conditions)
    types_by_message: dict[str, str] = {}
    for each in conditions:
        head = f"{each.type:<{types}}  {each.status:<7}  {each.reason:<{reasons}}"
        # A message may have several lines: the last output of the server.
        message = printable(each.message).replace("\n", "\n" + " " * (len(head) + 2))
        first = types_by_message.setdefault(each.message, each.type)
        is_news = first == each.type or not message
        yield f"{head}  {message if is_news else f'(see {first})'}".rstrip()


def event_lines(events: list[EventLine], now: datetime) -> Iterator[str]:
    """Yield the last events, the newest last."""
    for event in sorted(events, key=lambda each: (each.at, each.written))[-_LAST_EVENTS:]:
        times = f" ({event.count} times)" if event.count > 1 else ""
        message = _short(printable(event.message).replace("\n", " "))
        yield f"{_age(event.at, now):>9}  {event.type:<7}  {event.reason}: {message}{times}"


def event_of(raw: Mapping[str, Any]) -> EventLine:
    """Return an event from its object, in the old or the new API."""
    series = raw.get("series") or {}
    at = (
        series.get("lastObservedTime")
        or raw.get("lastTimestamp")
        or raw.get("eventTime")
        or raw.get("firstTimestamp")
        or raw.get("metadata", {}).get("creationTimestamp")
    )
    return EventLine(
        at=str(at or ""),
        type=raw.get("type") or "Normal",
        reason=raw.get("reason") or "",
        message=raw.get("message") or "",
        count=series.get("count") or raw.get("count") or 1,
        written=_number(raw.get("metadata", {}).get("resourceVersion")),
    )


def verdict_line(run: SeenRun) -> Text:
    """Return the headline as a coloured sentence."""
    head = headline(run)
    return Text.assemble((head.word, STYLES[head.tone]), ": ", printable(head.sentence))


def _short(text: str) -> str:
    return text if len(text) <= _EVENT_LENGTH else f"{text[: _EVENT_LENGTH - 3]}..."


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


def _going_on(run: SeenRun, total: int) -> str:
    accepted = run.condition("Accepted")
    match run.status.phase:
        case None:
            return "No operator has accepted the run yet."
        case "Queued" | "Suspended" if accepted is not None:
            return _sentence(accepted)
        case "Measuring":
            measured = len({summary.name for summary in run.status.scenarios})
            return f"{measured} of {scenario_count(total)} measured."
        case _:
            waits = (run.condition("ServerReady"), run.condition("Measuring"))
            held = [each for each in waits if each is not None and each.status != "True"]
            return _sentence(held[0]) if held else "The run is being prepared."


def _sentence(condition: Condition) -> str:
    """Return the first line of a condition's message; the last output of a server may follow."""
    first = condition.message.strip().partition("\n")[0]
    return as_sentence(first.removesuffix(":") or f"{condition.type} is {condition.status}")


def _phase(status: RunStatus) -> str:
    return status.phase or "not accepted"


def _ago(at: str, now: datetime) -> str:
    age = _age(at, now)
    return f"  ({age})" if age else ""


def _age(at: str, now: datetime) -> str:
    """Return how long ago a time was; empty if it is malformed or in the future."""
    then = parse_time(at)
    if then is None:
        return ""
    seconds = int((now - then).total_seconds())
    if seconds < 0:
        return ""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name} ago"
    return f"{seconds} s ago"
