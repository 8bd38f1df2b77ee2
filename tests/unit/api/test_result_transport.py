"""A result is transferred completely through the log of a pod, or is reported as incomplete."""

import contextlib
import string
import tracemalloc
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferometer_api.plan.load_report import LoadReport, report_within
from inferometer_api.plan.reports import ProgressReport
from inferometer_api.results.gzip_members import (
    DOCUMENT_BYTES,
    IncompleteError,
    compress,
    decompress,
)
from inferometer_api.results.result import (
    Finding,
    Outcome,
    ResultDocument,
    ScenarioResult,
    ServedStep,
    ServerTime,
    Verdict,
    nanoseconds_at,
)
from inferometer_api.results.result_transport import (
    HEAD_BYTES,
    LINE_BYTES,
    LOG_BYTES,
    REPORT_BYTES,
    LogDecoder,
    TooLargeError,
    check_parsed,
    decode_log,
    encode_for_log,
    join_document,
    split_document,
)
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.results.search import Peak
from inferometer_api.status.run_status import ScenarioSummary, StepSummary
from inferometer_loadgen.schedule.arrivals import Stream, generator
from support.results import a_result
from support.steps import Load, a_step

NOISE = generator(7, Stream.INPUTS).bytes(40_000)
"""Bytes that cannot be compressed: seven lines of a log."""

FOREIGN = st.text(alphabet=string.printable, max_size=60).filter(
    lambda text: not text.startswith("inferometer-result ")
)


def encode(body: bytes, *, limit_bytes: int = LOG_BYTES) -> list[str]:
    """Return a log's lines of a result with a small report and head."""
    return encode_for_log(b"{}", b'{"kind":1}', body, limit_bytes=limit_bytes)


def decode(lines: Iterable[str]) -> bytes:
    """Return the body of the result in a log's lines."""
    found = decode_log(lines)
    assert (found.report, found.head) == (b"{}", b'{"kind":1}')
    return bytes(decompress(found.body_gz))


@given(st.binary(max_size=20_000), st.lists(st.tuples(st.integers(0, 20), FOREIGN), max_size=5))
def test_a_decoded_log_equals_the_encoded_document(
    document: bytes, foreign: list[tuple[int, str]]
) -> None:
    """A document comes back from a log, whatever other lines stand between its own."""
    lines = encode(document)
    for at, line in foreign:
        lines.insert(at, line)
    assert decode(lines) == document
    assert decode(f"{line}\r\n" for line in lines) == document


@given(st.binary(max_size=20_000), st.integers(1, 9_000))
def test_a_log_may_arrive_in_pieces_of_any_size(document: bytes, size: int) -> None:
    """Lines and marks that are cut between two pieces are put together."""
    log = "\n".join(["noise", *encode(document), "noise"]).encode()
    decoder = LogDecoder()
    for at in range(0, len(log), size):
        if not decoder.feed(log[at : at + size]):
            break
    assert decompress(decoder.finish().body_gz) == document


def test_head_and_body_are_the_document() -> None:
    """What the operator stores is the document as the load generator would write it."""
    document = a_result()
    head, body = split_document(document)
    assert join_document(head, body).decode() == document.model_dump_json(exclude_none=True)
    assert ResultDocument.model_validate_json(head).scenarios == []


_BEGIN = f"inferometer-result begin lines=2 bytes=9 sha256={'0' * 64}\n".encode()
_BOMB = encode(bytes(DOCUMENT_BYTES - 10))
_LARGEST = encode(b64encode(generator(7, Stream.INPUTS).bytes(11 << 19)))


_EMPTY_BLOCKS = (
    compress(b"{}") * 2 + compress(b"")[:10] + b"\x00\x00\x00\xff\xff" * ((17 << 20) // 5)
)


def _log(gz: bytes) -> bytes:
    """Return a log whose lines hold these compressed bytes."""
    count = -(-len(gz) // 6000)
    begin = f"inferometer-result begin lines={count} bytes={1 << 23} sha256={'0' * 64}"
    lines = [
        f"inferometer-result {number} {b64encode(gz[at : at + 6000]).decode()}"
        for number, at in enumerate(range(0, len(gz), 6000), start=1)
    ]
    return "\n".join(["", begin, *lines, ""]).encode()


def _pieces(unit: bytes) -> Iterator[bytes]:
    """Yield a log of 24 MiB as a connection would."""
    repeated = unit * (1 + (64 << 10) // len(unit)) if len(unit) < 64 << 10 else unit
    for _ in range(-(-(24 << 20) // len(repeated))):
        for at in range(0, len(repeated), 64 << 10):
            yield repeated[at : at + (64 << 10)]


@pytest.mark.parametrize(
    "unit",
    [
        b"\n",
        b"x",
        b"inferometer-result ",
        b"\ninferometer-result",
        b"\r\n",
        _BEGIN,
        "\n".join(_BOMB).encode(),
        _BEGIN + "\n".join(_BOMB[1:]).encode(),
        b"\ninferometer-result too-large ",
        _log(compress(bytes(1 << 22)) * 2),
        _log(_EMPTY_BLOCKS),
        "\n".join(_LARGEST).encode(),
    ],
    ids=lambda unit: repr(unit[:24]),
)
def test_no_log_takes_more_memory_than_a_document(unit: bytes) -> None:
    """24 MiB of newlines, one line of 24 MiB, a bomb of gzip: at most 16 MiB are held."""
    tracemalloc.start()
    try:
        with contextlib.suppress(IncompleteError, TooLargeError):
            decoder = LogDecoder()
            for piece in _pieces(unit):
                if not decoder.feed(piece):
                    break
            decoder.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 16 << 20


def test_a_document_of_small_objects_is_not_handed_over() -> None:
    """In memory it would take far more than its size."""
    encode(b'[{"a":1,"b":2}]')
    for bomb in (b'{"a":1}' * 80_001, b"1," * 600_001):
        with pytest.raises(TooLargeError, match="objects and"):
            encode(bomb)
    for bomb in (b'{"a":1}' * 5_001, b"1," * 20_001, bytes(HEAD_BYTES + 1)):
        with pytest.raises(TooLargeError, match="The head of the result document has"):
            encode_for_log(b"{}", bomb, b"")
    with pytest.raises(TooLargeError, match="The report has"):
        encode_for_log(bytes(REPORT_BYTES + 1), b"{}", b"")


@given(st.integers(0, 8))
def test_a_lost_line_is_rejected(lost: int) -> None:
    """A log that lacks any one line of a document gives none, and the error says so."""
    lines = encode(NOISE)
    assert len(lines) == 9
    del lines[lost]
    with pytest.raises(IncompleteError, match=r"\.$"):
        decode(lines)


@pytest.mark.parametrize("line_count", range(9))
def test_a_truncated_log_is_rejected(line_count: int) -> None:
    """A log that ends before the document does gives none."""
    with pytest.raises(IncompleteError, match=r"no result document|The log ends after"):
        decode(encode(NOISE)[:line_count])


def test_lines_out_of_order_are_rejected() -> None:
    """Lines that change places make no document, and neither does one that comes twice."""
    lines = encode(NOISE)
    with pytest.raises(IncompleteError, match="Line 2 of the 7 lines"):
        decode([*lines[:2], lines[3], lines[2], *lines[4:]])
    with pytest.raises(IncompleteError, match="Line 3 of the 7 lines"):
        decode([*lines[:3], lines[2], *lines[3:]])


@settings(max_examples=300)
@given(st.data())
def test_a_garbled_line_is_rejected(data: st.DataObject) -> None:
    """No character that is another one makes another document of it."""
    document = data.draw(st.binary(max_size=200))
    lines = encode(document)
    row = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, len(lines[row]) - 1))
    other = data.draw(st.sampled_from(sorted(set(string.printable) - {lines[row][column]})))
    lines[row] = lines[row][:column] + other + lines[row][column + 1 :]
    try:
        # Some bytes of the gzip header do not depend on the document.
        assert decode(lines) == document
    except IncompleteError:
        return
    assert row == 1


def test_a_document_of_another_checksum_is_refused() -> None:
    """A whole document of the same size is no substitute for the one that was announced."""
    announced, other = (encode(bytes([each]) * 500) for each in b"ab")
    assert len(announced) == len(other)
    with pytest.raises(IncompleteError, match="or another checksum"):
        decode([announced[0], *other[1:-1], announced[-1]])


def test_a_result_of_another_format_is_refused() -> None:
    """A load generator of another version may write one compressed document, or four."""
    for members, found in ((1, "has 1 parts instead of 3"), (4, "something behind its end")):
        lines = _log(compress(b"{}") * members).decode().splitlines()
        with pytest.raises(IncompleteError, match=found):
            decode([*lines[1:], f"inferometer-result end sha256={'0' * 64}"])


def test_a_second_document_replaces_one_that_was_cut() -> None:
    """Where a document begins anew, the whole one counts."""
    assert decode([*encode(NOISE)[:4], *encode(b"whole")]) == b"whole"


def test_lines_are_short_and_a_log_is_bounded() -> None:
    """No line is longer than 8 KiB, and what would fill a log beyond its limit is refused."""
    lines = encode(NOISE)
    assert max(map(len, lines)) < LINE_BYTES
    size = sum(len(line) + 1 for line in lines)
    assert encode(NOISE, limit_bytes=size) == lines
    with pytest.raises(TooLargeError, match=f"{size} bytes when it is packed"):
        encode(NOISE, limit_bytes=size - 1)


def test_a_document_that_no_reader_takes_is_refused() -> None:
    """A document is bounded unpacked as well: it cannot fill the memory of who reads it."""
    with pytest.raises(TooLargeError):
        encode(bytes(DOCUMENT_BYTES + 1))
    bomb = bytes(DOCUMENT_BYTES + (64 << 10) + 1)
    with pytest.raises(IncompleteError, match="larger than"):
        decompress(compress(bomb))
    with pytest.raises(IncompleteError, match="cannot be decompressed"):
        decompress(b"no gzip")
    with pytest.raises(IncompleteError, match="cut"):
        decompress(compress(NOISE)[:-3])
    with pytest.raises(IncompleteError, match="cut"):
        decompress(compress(NOISE) + b"x")


MESSAGES = st.text(max_size=40).map(lambda text: text * 90)
COUNTS = st.integers(0, 2**53 - 1)
OUTCOMES = MESSAGES.map(lambda text: Outcome(state="Failed", reason="ServerLost", message=text))


@st.composite
def summaries(draw: st.DrawFn) -> ScenarioSummary:
    """Return any summary with a long name."""
    return ScenarioSummary(
        name="a" * 63,
        verdict="INVALID",
        reasons=draw(st.lists(MESSAGES, max_size=3)),
        cautions=draw(st.lists(MESSAGES, max_size=3)),
        steps=[StepSummary(step="clients 1")] * draw(st.integers(0, 32)),
        queries=draw(COUNTS),
        achieved_milli_qps=draw(COUNTS),
        p50_microseconds=draw(COUNTS),
        p99_microseconds=draw(COUNTS),
    )


@st.composite
def reports(draw: st.DrawFn) -> LoadReport:
    """Return any report, most of them far too long."""
    progress = ProgressReport(stage="Measuring", detail="y" * 300)
    return LoadReport(
        progress=draw(st.none() | st.just(progress)),
        scenarios=draw(st.lists(summaries(), max_size=4)) * 20,
        outcome=draw(st.none() | OUTCOMES),
        document_sha256="0" * 64,
        document_bytes=draw(COUNTS),
        document_missing_reason=draw(st.just("") | MESSAGES),
    )


@given(reports(), st.integers(2048, 4096))
def test_a_report_fits_into_a_termination_message(report: LoadReport, limit: int) -> None:
    """A report never exceeds the limit, stays a valid report, and names what it omits."""
    packed = report_within(report, limit)
    assert len(packed) <= limit
    found = LoadReport.model_validate_json(packed)
    assert found.document_sha256 == report.document_sha256
    assert (found == report) == (not found.omitted)
    assert (found.outcome is None) == (report.outcome is None)
    for packed_scenario, scenario in zip(found.scenarios, report.scenarios, strict=False):
        assert packed_scenario.p99_microseconds == scenario.p99_microseconds
    if "scenarios" not in found.omitted:
        assert len(found.scenarios) == len(report.scenarios)


def _summary(
    *, queries: int = 0, reasons: Sequence[str] = (), cautions: Sequence[str] = ()
) -> ScenarioSummary:
    return ScenarioSummary(
        name="latency",
        verdict="VALID",
        p99_microseconds=5,
        queries=queries,
        reasons=list(reasons),
        cautions=list(cautions),
    )


def test_what_matters_least_is_left_out_first() -> None:
    """Cautions go before reasons, and these before any scenario."""
    long = "A sentence. " * 200
    two = LoadReport(scenarios=[_summary(reasons=["short"], cautions=[long, long])])
    found = LoadReport.model_validate_json(report_within(two))
    assert found.omitted == ["cautions"]
    assert found.scenarios == [_summary(reasons=["short"])]
    both = LoadReport(scenarios=[_summary(reasons=[long, long], cautions=["short"])])
    assert LoadReport.model_validate_json(report_within(both)).omitted == ["cautions", "reasons"]
    many = LoadReport(scenarios=[_summary(queries=1)] * 100)
    cut = LoadReport.model_validate_json(report_within(many))
    assert "scenarios" in cut.omitted
    assert 40 < len(cut.scenarios) < 100


def test_a_report_has_no_more_steps_than_the_operator_parses() -> None:
    """More are all left out, however small they are: the result document is worth more."""
    one = _summary(queries=1).model_copy(update={"steps": [StepSummary(step="a")] * 20})
    fits = LoadReport(scenarios=[one] * 100)
    assert LoadReport.model_validate_json(report_within(fits, REPORT_BYTES)) == fits
    report = report_within(LoadReport(scenarios=[one] * 101), REPORT_BYTES)
    found = LoadReport.model_validate_json(report)
    assert found.omitted == ["steps"]
    assert found.scenarios == [_summary(queries=1)] * 101
    check_parsed(report, b"{}")


def test_a_summary_has_the_units_of_its_names() -> None:
    """Rates become queries per 1,000 s, nanoseconds microseconds."""
    result = a_result().scenarios[1]
    step = result.steps[0]
    found = scenario_summary(result)
    assert step.latency is not None
    by_percentile = {value.percentile: value.nanoseconds for value in step.latency.percentiles}
    assert (found.name, found.verdict, found.step) == ("traffic", "INVALID", "")
    assert found.achieved_milli_qps == round(step.achieved_qps * 1000)
    assert found.scheduled_milli_qps == round((step.scheduled_qps or 0) * 1000) > 0
    assert (found.queries, found.errors) == (step.counts.queries, step.counts.failed)
    assert found.p50_microseconds == round(by_percentile[50] / 1000)
    assert found.p90_microseconds == round(by_percentile[90] / 1000)
    assert found.p99_microseconds == round(by_percentile[99] / 1000)
    assert found.p999_microseconds == round(by_percentile[99.9] / 1000)
    assert found.reasons == [finding.message for finding in result.verdict.reasons]
    assert found.cautions == [finding.message for finding in result.verdict.cautions]
    assert found.energy_attribution == "unavailable"
    assert ScenarioSummary.model_validate_json(found.model_dump_json(exclude_none=True)) == found


def test_a_summary_has_the_steps_in_the_server() -> None:
    """With their time, and their share in millionths."""
    result = a_result().scenarios[1]
    steps = [
        ServedStep(step="decode", nanoseconds=1_500, share=0.25),
        ServedStep(step="topK", nanoseconds=0),
    ]
    spent = ServerTime(
        requests=1,
        executions=1,
        queue_nanoseconds=0,
        compute_input_nanoseconds=0,
        compute_infer_nanoseconds=4_500,
        compute_output_nanoseconds=0,
        steps=steps,
    )
    step = result.steps[0].model_copy(update={"server_time": spent})
    found = scenario_summary(result.model_copy(update={"steps": [step]})).server_time
    assert found is not None
    assert [(each.step, each.mean_microseconds, each.share_millionths) for each in found.steps] == [
        ("decode", 2, 250_000),
        ("topK", 0, 0),
    ]


def test_a_summary_shows_the_best_of_several_steps() -> None:
    """A batch is shown by the size with the most samples per second; totals have other names."""
    result = a_result().scenarios[2]
    best = max(result.steps, key=lambda step: step.achieved_samples_per_second)
    found = scenario_summary(result)
    assert found.step == best.label != ""
    assert found.achieved_milli_qps == round(best.achieved_qps * 1000)
    assert (found.queries, found.errors) == (best.counts.queries, best.counts.failed)
    assert found.total_queries == sum(step.counts.queries for step in result.steps)
    assert found.total_errors == sum(step.counts.failed for step in result.steps)
    assert [(each.step, each.achieved_milli_qps) for each in found.steps] == [
        (step.label, round(step.achieved_qps * 1000)) for step in result.steps
    ]
    medians = [round((nanoseconds_at(step.latency, 50.0) or 0) / 1000) for step in result.steps]
    assert [each.p50_microseconds for each in found.steps] == medians
    single = scenario_summary(a_result().scenarios[1])
    assert (single.total_queries, single.steps) == (None, [])
    many = result.model_copy(update={"steps": result.steps[:1] * 33})
    assert scenario_summary(many).steps == []


def test_a_summary_without_its_step_has_no_figures_but_totals() -> None:
    """A search that found no peak shows no probe's counts."""
    peak = Peak(percentile=99.0, latency_bound_nanoseconds=1, stop_reason="OutOfTime")
    found = a_result().scenarios[2].model_copy(update={"peak": peak})
    summary = scenario_summary(found)
    assert (summary.step, summary.queries, summary.errors) == ("", None, None)
    assert summary.total_queries == sum(step.counts.queries for step in found.steps)


def test_a_summary_holds_what_a_status_may() -> None:
    """A status keeps as many reasons as fit, and shortens a long one."""
    finding = Finding(rule="ErrorRate", message="x" * 5000, figure="", limit="")
    verdict = Verdict(state="INVALID", reasons=[finding] * 40)
    result = ScenarioResult(name="a", kind="batch", seed=1, steps=[], verdict=verdict)
    found = scenario_summary(result)
    assert len(found.reasons) == 16
    assert found.reasons[-1] == "25 more are in the result document."
    assert len(found.reasons[0]) == 4096
    assert found.p99_microseconds is None
    assert scenario_summary(result.model_copy(update={"steps": [a_step(Load())]})).p99_microseconds
