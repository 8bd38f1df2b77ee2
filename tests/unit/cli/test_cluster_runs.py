"""The state, outcome and exit code of a run in a cluster."""

import base64
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from typing_extensions import override

from inferometer_api.plan.cluster_objects import RESULT_FILE, RUN_UID_LABEL
from inferometer_api.results.gzip_members import IncompleteError, compress
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.status.run_status import ResultReference
from inferometer_cli.cluster import follow as following
from inferometer_cli.cluster.api import Cluster, NotThereError
from inferometer_cli.cluster.cancellation import describe_cancellation
from inferometer_cli.cluster.follow import line_of
from inferometer_cli.cluster.results import download_result, whole_result
from inferometer_cli.cluster.run_summary import (
    condition_lines,
    event_lines,
    event_of,
    exit_code_of,
    head_lines,
    headline,
    verdict_line,
)
from inferometer_cli.cluster.runs import SeenRun, seen
from inferometer_cli.cluster.status_table import print_figures
from inferometer_cli.exits import ExitCode, FailedError, RefusedError
from support.cluster_runs import a_complete_status, a_condition
from support.results import a_result, a_valid_result

NOW = datetime(2026, 3, 12, 14, 3, 51, tzinfo=UTC)
SCENARIOS = [{"name": name} for name in ("latency", "traffic", "throughput")]
SHA256 = "0" * 64


def _run(status: dict[str, Any] | None = None, **spec: Any) -> SeenRun:
    return seen(
        {
            "metadata": {
                "name": "resnet50",
                "namespace": "bench",
                "uid": "1-2",
                "creationTimestamp": "2026-03-12T14:03:21Z",
            },
            "spec": {"scenarios": SCENARIOS, **spec},
            "status": status,
        }
    )


def _failed(reason: str, message: str, accepted: str = "True") -> SeenRun:
    conditions = [
        a_condition("Accepted", accepted, "Accepted" if accepted == "True" else reason),
        a_condition("Failed", "True", reason, message),
    ]
    return _run({"phase": "Failed", "conditions": conditions})


@pytest.mark.parametrize(
    ("run", "code", "word", "sentence"),
    [
        (_run(), ExitCode.VALID, "NOT ACCEPTED", "No operator has accepted the run yet."),
        (
            _run(
                {
                    "phase": "Queued",
                    "conditions": [a_condition("Accepted", "True", "Queued", "2nd in the queue.")],
                }
            ),
            ExitCode.VALID,
            "QUEUED",
            "2nd in the queue.",
        ),
        (
            _run(
                {
                    "phase": "Starting",
                    "conditions": [
                        a_condition("Accepted", "True", "Accepted"),
                        a_condition("ServerReady", "False", "ImageNotPulled", "The image is gone"),
                    ],
                }
            ),
            ExitCode.VALID,
            "STARTING",
            "The image is gone.",
        ),
        (_run({"phase": "Measuring"}), ExitCode.VALID, "MEASURING", "0 of 3 scenarios measured."),
        (
            _failed("ServerEnded", "It ended; its last lines:\nfatal"),
            ExitCode.FAILED,
            "FAILED",
            "It ended; its last lines.",
        ),
        (_failed("ModelRefused", "No such file"), ExitCode.REFUSED, "REFUSED", "No such file."),
        (_failed("NotAvailable", "Not here", "False"), ExitCode.REFUSED, "REFUSED", "Not here."),
        (
            _run(a_complete_status(a_result())),
            ExitCode.INVALID,
            "INVALID",
            "1 of 3 scenarios is invalid.",
        ),
        (
            _run(a_complete_status(a_valid_result()), scenarios=SCENARIOS[:1]),
            ExitCode.VALID,
            "VALID",
            "The scenario is valid.",
        ),
    ],
)
def test_a_run_exits_like_a_local_one(
    run: SeenRun, code: ExitCode, word: str, sentence: str
) -> None:
    """Each state has its exit code, word and sentence; an unfinished run exits with 0."""
    assert exit_code_of(run) is code
    assert (headline(run).word, headline(run).sentence) == (word, sentence)


def test_fields_of_a_later_operator_are_ignored() -> None:
    """A status with unknown fields or an unknown phase is readable; a damaged one is not."""
    status = {"phase": "Queued", "tomorrow": 1, "display": {"qps": "4", "news": True}}
    assert _run(status).status.phase == "Queued"
    assert str(_run({"phase": "Meditating"}).status.phase) == "Meditating"
    with pytest.raises(
        FailedError, match=r"Cannot understand the status of resnet50 at status\.phase"
    ):
        _run({"phase": {"now": "Queued"}})


def test_the_head_identifies_the_run() -> None:
    """The first lines show name, phase with progress, current figures and times."""
    run = _run(
        {
            "phase": "Measuring",
            "progressPercent": 43,
            "startTime": "2026-03-12T14:03:30Z",
            "display": {"scenario": "traffic", "qps": "4.60", "p99": "111 ms"},
        }
    )
    assert list(head_lines(run, NOW)) == [
        "run       bench/resnet50",
        "phase     Measuring, 43 % measured",
        "scenario  traffic  4.60 queries/s  p99 111 ms",
        "created   2026-03-12T14:03:21Z  (30 s ago)",
        "started   2026-03-12T14:03:30Z  (21 s ago)",
    ]


def test_the_head_shows_nodes_and_energy() -> None:
    """The servers' nodes have a line, and energy is among the current figures."""
    shown = {"scenario": "traffic", "joulesPerInference": "0.812J"}
    lines = list(head_lines(_run({"nodes": ["node-a", "node-b"], "display": shown}), NOW))
    assert lines[2] == "scenario  traffic  0.812J per inference"
    assert lines[3] == "nodes     node-a, node-b"


def test_conditions_are_columns() -> None:
    """Each condition is a line; its message is aligned and printed once."""
    ended = "It ended:\nfatal"
    conditions = [
        a_condition("Accepted", "True", "Accepted"),
        a_condition("Complete", "False", "Other"),
        a_condition("Failed", "True", "ServerEnded", ended),
        a_condition("Finished", "True", "Failed", ended),
    ]
    assert list(condition_lines(_run({"conditions": conditions}))) == [
        "Accepted  True     Accepted",
        "Complete  False    Other",
        "Failed    True     ServerEnded  It ended:\n                                fatal",
        "Finished  True     Failed       (see Failed)",
    ]
    assert "no operator has accepted the run" in next(condition_lines(_run()))


def test_the_last_events_are_printed_in_order() -> None:
    """The last five events are printed, from the old and the new events API."""
    events = [
        event_of({"reason": f"R{second}", "lastTimestamp": f"2026-03-12T14:03:{second}Z"})
        for second in range(10, 16)
    ]
    newest = {"reason": "New", "eventTime": "2026-03-12T14:03:50.123456Z", "message": "a\nb"}
    series = {"count": 3, "lastObservedTime": "2026-03-12T14:03:51Z"}
    again = {"reason": "Again", "type": "Warning", "series": series, "message": "m" * 200}
    events += [event_of(newest), event_of(again)]
    lines = list(event_lines(events, NOW))
    assert [line.split(": ")[0].split()[-1] for line in lines] == [
        "R13",
        "R14",
        "R15",
        "New",
        "Again",
    ]
    assert lines[-2].endswith("New: a b")
    assert lines[-1] == f"  0 s ago  Warning  Again: {'m' * 157}... (3 times)"


def test_the_figures_look_like_those_of_a_local_run() -> None:
    """The table has the columns of `inferometer run`; a shared sentence is printed once."""
    document = a_result()
    summaries = [scenario_summary(result) for result in document.scenarios]
    console = Console(file=io.StringIO(), width=80)
    print_figures(summaries, verdict_line(_run(a_complete_status(document))), console)
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = file.getvalue().splitlines()
    assert lines[0].split()[:4] == ["scenario", "queries", "qps", "p50"]
    assert [line.split()[0] for line in lines[1:4]] == ["VALID", "INVALID", "VALID"]
    assert "throughput, batch 32" in lines[3]
    assert lines[5] == "INVALID: 1 of 3 scenarios is invalid."
    assert sum("Server and load generator shared" in line for line in lines) == 1
    assert any(line.startswith("caution latency, traffic, throughput: ") for line in lines)


def test_a_followed_run_has_a_line_for_each_change() -> None:
    """An unfinished run is one line: its stage, its progress, the current figures."""
    shown = {"scenario": "traffic", "qps": "4.60", "p99": "111 ms"}
    run = _run({"phase": "Measuring", "progressPercent": 43, "display": shown})
    assert line_of(run) == "measuring 43 %: traffic  4.60 queries/s  p99 111 ms"
    assert line_of(_run()) == "not accepted: No operator has accepted the run yet."
    ended = line_of(_failed("ServerEnded", "It ended:\nfatal"))
    assert ended == "FAILED: It ended. Cleaning up."


class _Replaced(Cluster):
    """A cluster in which another run has the name of the run that is followed."""

    def __init__(self) -> None:
        self.namespace = "bench"

    @override
    def read(self, *_: object, **__: object) -> dict[str, Any]:
        finished = [a_condition("Finished", "True", "Complete")]
        return {
            "metadata": {"name": "resnet50", "namespace": "bench", "uid": "another"},
            "status": {"phase": "Complete", "conditions": finished},
        }


def test_another_run_of_the_same_name_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The followed run was deleted; the result of its namesake is not passed off as its own."""
    monkeypatch.setattr(following, "_EVERY_SECONDS", 0.0)
    with pytest.raises(FailedError, match="bench/resnet50 was deleted while"):
        following.follow(_Replaced(), _run(), report=lambda _: None)


_MEASURED = [{"name": "latency", "verdict": "VALID"}]


def _without_result(finished: tuple[str, str, str] | None, measured: list[Any]) -> SeenRun:
    conditions = [a_condition("Complete", "True", "Measured")]
    if finished is not None:
        conditions.append(a_condition("Finished", *finished))
    return _run({"phase": "Complete", "conditions": conditions, "scenarios": measured})


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            _without_result(("True", "Complete", "All measured, not kept"), _MEASURED),
            "was not kept. All measured, not kept. `inferometer status resnet50 -n bench` shows",
        ),
        (
            _without_result(("False", "ResultPending", "The log is unread."), []),
            "The result of bench/resnet50 cannot be downloaded yet. The log is unread.",
        ),
        (_without_result(None, []), "cannot be downloaded yet. It is being read."),
        (_failed("ServerCrashed", "It crashed."), "cannot be downloaded yet. It is being read."),
        (_run({"phase": "Queued"}), "bench/resnet50 has no result yet: it is queued."),
    ],
)
def test_a_result_that_cannot_be_downloaded_is_explained(run: SeenRun, sentence: str) -> None:
    """A result that was not kept was there, and one that is awaited comes."""
    with pytest.raises(RefusedError) as refusal:
        download_result(_Replaced(), run)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (_run(), "It had not started; nothing is measured."),
        (_run({"phase": "Starting"}), "It was still starting; whatever it has measured is kept."),
        (_run({"phase": "Measuring"}), "0 of 3 scenarios are measured; they are kept"),
        (_run(cancel=True), "was cancelled before and is ending."),
        (_failed("NodeLost", "Gone."), "has ended already; nothing was changed. FAILED: Gone."),
    ],
)
def test_cancellation_is_described(run: SeenRun, sentence: str) -> None:
    """What happens to a cancelled run depends on its phase."""
    assert describe_cancellation(run).startswith("bench/resnet50 ")
    assert sentence in describe_cancellation(run)


def _config_maps(parts: list[bytes], uid: str = "1-2") -> list[dict[str, Any] | None]:
    return [
        {
            "metadata": {"labels": {RUN_UID_LABEL: uid}},
            "binaryData": {RESULT_FILE: base64.b64encode(part).decode()},
        }
        for part in parts
    ]


def test_a_result_is_assembled_from_its_parts() -> None:
    """The parts, in the order of the status, give the document byte for byte."""
    document = bytes(range(256)) * 40
    gz = compress(document)
    names = ResultReference(config_maps=["r-0", "r-1"])
    assert whole_result(_config_maps([gz[:100], gz[100:]]), names, "1-2") == document


@pytest.mark.parametrize(
    ("config_maps", "sentence"),
    [
        ([None, *_config_maps([b"x"])], "ConfigMap r-0, which holds a part of it, does not exist."),
        (
            _config_maps([b"x", b"y"], uid="other"),
            "ConfigMap r-0 belongs to another run, other.",
        ),
        (_config_maps([compress(b"document"), b""]), "its sha256 is "),
        (_config_maps([compress(b"document")[:-3], b""]), "cannot be decompressed|is cut"),
        ([{"metadata": {"labels": {RUN_UID_LABEL: "1-2"}}}] * 2, "r-0 has no key result.json.gz"),
        (
            [{"metadata": {"labels": {RUN_UID_LABEL: "1-2"}}, "binaryData": {RESULT_FILE: "?"}}]
            * 2,
            "r-0 is damaged",
        ),
    ],
)
def test_a_gap_in_a_result_is_reported(
    config_maps: list[dict[str, Any] | None], sentence: str
) -> None:
    """A missing, foreign, damaged or modified part is named, and no partial result is returned."""
    names = ResultReference(config_maps=["r-0", "r-1"], sha256=SHA256)
    with pytest.raises(IncompleteError, match=sentence):
        whole_result(config_maps, names, "1-2")


_EXPORTED = {"uri": "s3://kept/of/a-run-1/result.json", "sha256": SHA256, "bytes": 12}


class _EmptyCluster(Cluster):
    """A namespace without ConfigMaps."""

    def __init__(self) -> None:
        self.namespace = "bench"

    @override
    def read(self, *_: object, **__: object) -> dict[str, Any]:
        raise NotThereError("Not found.")


def test_a_result_that_is_only_exported_is_located() -> None:
    """The ConfigMaps never held it, or are gone."""
    status = a_complete_status(a_result())
    only = _run({**status, "result": {"exported": _EXPORTED}})
    with pytest.raises(RefusedError, match=rf"exported to {_EXPORTED['uri']} \(12 bytes, sha256 0"):
        download_result(_EmptyCluster(), only)
    both = _run({**status, "result": {"configMaps": ["r-0"], "exported": _EXPORTED}})
    with pytest.raises(FailedError, match=f"whole result was exported to {_EXPORTED['uri']}"):
        download_result(_EmptyCluster(), both)
