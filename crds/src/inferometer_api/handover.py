"""How does a result get from a load generator in a pod to whoever keeps it?

The result document goes to the pod's log as lines of text between two marks, and from there into
parts that a ConfigMap can hold. A `LoadReport` tells its summary, whatever became of the document.
"""

import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from pydantic import Field

from inferometer_api.document import Count, Document, Sha256
from inferometer_api.plan import Progress
from inferometer_api.result import Outcome, ScenarioResult, Step, nanoseconds_at
from inferometer_api.status import ScenarioSummary

LOG_BYTES = 8 * 1024 * 1024
"""The most that a packed document takes of a pod's log: kubelets keep 10 MiB by default."""
LINE_BYTES = 8 * 1024
"""The longest line of a packed document: container runtimes split lines of 16 KiB."""
PART_BYTES = 900 * 1024
"""The most that one ConfigMap holds of a document: 1 MiB is Kubernetes' own limit."""
DOCUMENT_BYTES = 8 * 1024 * 1024
"""The largest document that is handed over at all, so that no reader runs out of memory: read, one
takes 17 times its size, and the operator has 256 MiB."""
TERMINATION_MESSAGE_BYTES = 4096
"""The longest termination message that Kubernetes keeps."""
PROGRESS_BYTES = 1024 * 1024
"""The longest answer at /progress."""

_PREFIX = "inferometer-result "
_TOO_LARGE = "too-large "
_CHUNK_BYTES = 6000  # a multiple of 3: base64 without padding, 8,000 characters
_BEGIN = re.compile(r"begin lines=([0-9]{1,6}) bytes=([0-9]{1,9}) sha256=([0-9a-f]{64})")
_LINE = re.compile(r"([1-9][0-9]{0,5}) ([A-Za-z0-9+/=]+)")
_GZIP = 31  # zlib's window bits for its largest window with gzip's head and checksum

Omission = Literal["progress", "cautions", "reasons", "percentiles", "message", "scenarios"]


class LoadReport(Document):
    """What a load generator answers at /progress, and leaves as its termination message."""

    progress: Progress | None = None
    scenarios: list[ScenarioSummary] = Field(default_factory=list)
    """Scenarios that are measured and judged."""
    outcome: Outcome | None = None
    """How it ended, once it has."""
    document_sha256: Sha256 | None = None
    """Of the result document in the log, once it is written."""
    document_bytes: Count = 0
    """Its size, also where it was too large for the log."""
    undelivered: str = ""
    """Why the log holds no result document though the load generator has ended: a sentence."""
    omitted: list[Omission] = Field(default_factory=list)
    """What was left out or cut, wholly or in part, for the report to be short enough."""


class IncompleteError(ValueError):
    """A log does not hold the whole result document; the message is a sentence."""


class TooLargeError(ValueError):
    """A document is too large to be handed over; the message is a sentence."""


def packed(document: bytes, *, limit_bytes: int = LOG_BYTES) -> list[str]:
    """Return a document as lines of at most 8 KiB, without line ends, that `unpacked` understands.

    Raises TooLargeError where they would take more than `limit_bytes`, line ends included.
    """
    text = b64encode(compressed(document)).decode("ascii")
    step = _CHUNK_BYTES // 3 * 4
    chunks = [text[at : at + step] for at in range(0, len(text), step)]
    digest = sha256(document).hexdigest()
    lines = [
        f"{_PREFIX}begin lines={len(chunks)} bytes={len(document)} sha256={digest}",
        *(f"{_PREFIX}{number} {chunk}" for number, chunk in enumerate(chunks, start=1)),
        f"{_PREFIX}end sha256={digest}",
    ]
    size = sum(len(line) + 1 for line in lines)
    if size > limit_bytes or len(document) > DOCUMENT_BYTES:
        raise TooLargeError(
            f"The result document of {len(document)} bytes takes {size} bytes when it is packed, "
            f"and at most {limit_bytes} packed, {DOCUMENT_BYTES} unpacked, can be handed over."
        )
    return lines


def left_out(sentence: str) -> list[str]:
    """Return what stands in a log instead of a document that is too large, and says why."""
    return [f"{_PREFIX}{_TOO_LARGE}{' '.join(sentence.split())}"]


@dataclass(slots=True)
class _Unpacking:
    """What a log has told of a document so far."""

    lines: int
    size: int
    digest: str
    chunks: list[bytes]


def unpacked(lines: Iterable[str]) -> bytes:
    """Return the document that `packed` made, from a log that may have other lines between.

    Raises IncompleteError where a part of it is missing or was changed, TooLargeError where it was
    left out as too large.
    """
    found: _Unpacking | None = None
    for line in lines:
        text = line.rstrip("\r\n")
        if not text.startswith(_PREFIX):
            continue
        words = text.removeprefix(_PREFIX)
        if begin := _BEGIN.fullmatch(words):
            found = _Unpacking(int(begin[1]), int(begin[2]), begin[3], [])
        elif words.startswith(_TOO_LARGE) and found is None:
            raise TooLargeError(words.removeprefix(_TOO_LARGE))
        elif found is None:
            raise IncompleteError(
                "The log holds the end of a result document, but not its begin: its first lines "
                "are lost."
            )
        elif words == f"end sha256={found.digest}":
            return _document(found)
        else:
            found.chunks.append(_chunk(words, found))
    if found is None:
        raise IncompleteError("The log holds no result document.")
    raise IncompleteError(
        f"The log ends after {len(found.chunks)} of the {found.lines} lines of the result document."
    )


def _chunk(words: str, found: _Unpacking) -> bytes:
    due = len(found.chunks) + 1
    line = _LINE.fullmatch(words)
    if line is None or int(line[1]) != due or due > found.lines:
        raise IncompleteError(
            f"Line {due} of the {found.lines} lines of the result document was due in the log, but "
            f"{words[:40]!r} stands there."
        )
    try:
        chunk = b64decode(line[2], validate=True)
    except Base64Error:
        chunk = b""
    # Two spellings of the same bytes exist, of which one was written.
    if b64encode(chunk).decode("ascii") != line[2]:
        raise IncompleteError(
            f"Line {due} of the {found.lines} lines of the result document is garbled in the log."
        )
    return chunk


def _document(found: _Unpacking) -> bytes:
    if len(found.chunks) != found.lines:
        raise IncompleteError(
            f"The log holds {len(found.chunks)} of the {found.lines} lines of the result document."
        )
    document = decompressed(b"".join(found.chunks))
    if len(document) != found.size or sha256(document).hexdigest() != found.digest:
        raise IncompleteError(
            f"The result document in the log has {len(document)} bytes, {found.size} are told, or "
            f"its checksum differs from the one beside it: it was changed on its way."
        )
    return document


def compressed(document: bytes) -> bytes:
    """Return a document in gzip's format; the same document gives the same bytes."""
    gzip = zlib.compressobj(level=9, wbits=_GZIP)
    return gzip.compress(document) + gzip.flush()


def decompressed(gz: bytes) -> bytes:
    """Return what `compressed` was given; raises IncompleteError."""
    gzip = zlib.decompressobj(wbits=_GZIP)
    try:
        document = gzip.decompress(gz, DOCUMENT_BYTES + 1)
    except zlib.error as error:
        raise IncompleteError(f"The result document cannot be decompressed: {error}.") from error
    if not gzip.eof or gzip.unused_data or len(document) > DOCUMENT_BYTES:
        raise IncompleteError(
            f"The result document, compressed to {len(gz)} bytes, is cut, has something behind it, "
            f"or is larger than {DOCUMENT_BYTES} bytes."
        )
    return document


def parts(gz: bytes) -> list[bytes]:
    """Return compressed bytes in parts of at most 900 KiB, at least one."""
    return [gz[at : at + PART_BYTES] for at in range(0, len(gz), PART_BYTES)] or [b""]


def joined(all_parts: Sequence[bytes]) -> bytes:
    """Return what `parts` was given."""
    return b"".join(all_parts)


def report_within(report: LoadReport, limit_bytes: int = TERMINATION_MESSAGE_BYTES) -> bytes:
    """Return a report as JSON of at most so many bytes (2,048 or more), leaving out what it must.

    Cautions go first, then reasons, percentiles but the 99th, the end of a long message, and last
    the scenarios that no longer fit; `omitted` names what went.
    """
    shortened = report
    for shortened in _ever_shorter(report):
        encoded = _encoded(shortened)
        if len(encoded) <= limit_bytes:
            return encoded
    kept, too_many = 0, len(shortened.scenarios)
    while too_many - kept > 1:
        tried = (kept + too_many) // 2
        if len(_encoded(_with_scenarios(shortened, tried))) <= limit_bytes:
            kept = tried
        else:
            too_many = tried
    return _encoded(_with_scenarios(shortened, kept))


def _ever_shorter(report: LoadReport) -> Iterator[LoadReport]:
    yield report
    if report.progress is not None and report.outcome is not None:
        report = _without(report, "progress", progress=None)
        yield report
    for what in ("cautions", "reasons"):
        if any(getattr(each, what) for each in report.scenarios):
            cut = [each.model_copy(update={what: []}) for each in report.scenarios]
            report = _without(report, what, scenarios=cut)
            yield report
    if report.scenarios:
        absent = dict.fromkeys(("p50_microseconds", "p90_microseconds", "p999_microseconds"))
        cut = [each.model_copy(update=absent) for each in report.scenarios]
        report = _without(report, "percentiles", scenarios=cut)
        yield report
    told = (report.outcome.message if report.outcome else "") + report.undelivered
    for most in (600, 60):
        if len(told) > most:
            report = _with_messages(report, most)
            yield report
    if report.progress is not None:
        report = _without(report, "progress", progress=None)
        yield report


def _without(report: LoadReport, what: Omission, **update: object) -> LoadReport:
    omitted = [*report.omitted, *([] if what in report.omitted else [what])]
    return report.model_copy(update={**update, "omitted": omitted})


def _with_messages(report: LoadReport, most: int) -> LoadReport:
    outcome = report.outcome
    if outcome is not None:
        words = {"message": _cut(outcome.message, most), "reason": outcome.reason[:60]}
        outcome = outcome.model_copy(update=words)
    return _without(report, "message", outcome=outcome, undelivered=_cut(report.undelivered, most))


def _with_scenarios(report: LoadReport, count: int) -> LoadReport:
    return _without(report, "scenarios", scenarios=report.scenarios[:count])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _encoded(report: LoadReport) -> bytes:
    return report.model_dump_json(exclude_defaults=True).encode()


_MOST_MESSAGES = 16
_LONGEST_MESSAGE = 4096


def summary_of(result: ScenarioResult) -> ScenarioSummary:
    """Return what a status tells of a scenario: rates in queries per 1,000 s, times in us.

    `queries` and `errors` count all steps. Of several steps every other figure is that of the one
    which the scenario looks for, and `step` names it: the probe at the peak, the knee, else (the
    sizes of a `batch`) the one that answered the most samples per second.
    """
    best = _sought(result)
    peak = None if result.peak is None else result.peak.qps
    summary = ScenarioSummary(
        name=result.name,
        repeat=result.repeat,
        peak_milli_qps=None if peak is None else round(peak * 1000),
        verdict=result.verdict.state,
        reasons=_sentences([finding.message for finding in result.verdict.reasons]),
        cautions=_sentences([finding.message for finding in result.verdict.cautions]),
        queries=sum(step.counts.queries for step in result.steps),
        errors=sum(step.counts.failed for step in result.steps),
    )
    return summary if best is None else summary.model_copy(update=_figures(best))


def _sought(result: ScenarioResult) -> Step | None:
    named = result.peak.step if result.peak is not None else None
    if result.knee is not None:
        named = result.knee.step
    chosen = [step for step in result.steps if step.label == named]
    if result.peak is not None:
        return chosen[0] if chosen else None
    among = chosen or result.steps
    return max(among, key=lambda step: step.achieved_samples_per_second, default=None)


def _figures(step: Step) -> dict[str, object]:
    return {
        "step": step.label[:64],
        "achieved_milli_qps": round(step.achieved_qps * 1000),
        "scheduled_milli_qps": (
            None if step.scheduled_qps is None else round(step.scheduled_qps * 1000)
        ),
        "p50_microseconds": _microseconds(step, 50.0),
        "p90_microseconds": _microseconds(step, 90.0),
        "p99_microseconds": _microseconds(step, 99.0),
        "p999_microseconds": _microseconds(step, 99.9),
        "microjoules_per_inference": step.energy.microjoules_per_inference,
        "net_microjoules_per_inference": step.energy.net_microjoules_per_inference,
        "energy_attribution": step.energy.attribution,
    }


def _microseconds(step: Step, percentile: float) -> int | None:
    nanoseconds = nanoseconds_at(step.latency, percentile)
    return None if nanoseconds is None else round(nanoseconds / 1000)


def _sentences(messages: Sequence[str]) -> list[str]:
    """Return as many as a status may hold; where there are more, the last says how many."""
    cut = [_cut(message, _LONGEST_MESSAGE) for message in messages]
    if len(cut) <= _MOST_MESSAGES:
        return cut
    kept = _MOST_MESSAGES - 1
    return [*cut[:kept], f"{len(cut) - kept} more stand in the result document."]
