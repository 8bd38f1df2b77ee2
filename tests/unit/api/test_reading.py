"""Messages about a file that is not a valid run."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.spec.reading import InvalidRunError, parse_run
from support.run_table import rows

OK = """\
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: a-run}
spec:
  model: {uri: "zoo://classification/resnet50"}
  server:
    threads: 2
  scenarios:
  - {name: latency, singleStream: {}}
  - name: traffic
    server:
      targetQps: 200
"""


def messages(text: str, *overrides: tuple[str, str]) -> str:
    """Return what is said of a text that is refused."""
    with pytest.raises(InvalidRunError) as caught:
        parse_run(text, source="run.yaml", overrides=overrides)
    return str(caught.value)


def test_a_valid_file_parses_to_its_run() -> None:
    """A file in YAML becomes the run it describes, defaults filled in."""
    run = parse_run(OK, source="run.yaml")
    assert run.name == "a-run"
    assert [scenario.kind for scenario in run.spec.scenarios] == ["singleStream", "server"]
    assert run.spec.load.connections == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "it is empty; a run begins with apiVersion: inferometer.dev/v1alpha1"),
        ("# nothing\n---\n", "it is empty;"),
        ("- a", "it holds a list, and must be a mapping"),
        ("8", "it holds a single value"),
        ("a: 1", "it says no apiVersion and no kind;"),
        ("kind: Deployment\napiVersion: apps/v1", 'line 1: kind: must be BenchmarkRun; found "D'),
        ("kind: BenchmarkRun\napiVersion: v1", "line 2: apiVersion: must be inferometer.dev/v1al"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        ("a:\n\t- b", "line 2, column 1: found a tab; indent YAML with spaces."),
        ("a: 1\nb: 2\na: 3", 'line 3, column 1: the key "a" already appears in line 1.'),
        ('{"a": 1, "a": 2}', 'the key "a" already appears in line 1.'),
        (OK + "---\n" + OK, "2 documents; a file holds one: split it at ---."),
        ("a: &a [*a]", "an alias refers to its own parent."),
        ("a: !thing b", "the tag !thing is unknown."),
        ("a: \x00", "the character U+0000 at position 3 is not allowed."),
        ("[" * 500, "nested too deeply"),
        ("{a: 1, ? [b] : c}", "a key must be a text."),
        ("a: " + "x" * 2**20, "the text is larger than 1 MiB."),
    ],
)
def test_a_text_that_is_no_run_gets_a_sentence(text: str, expected: str) -> None:
    """Whatever is no single BenchmarkRun in YAML is refused with what it is, and where."""
    assert expected in messages(text)


def test_aliases_that_multiply_are_refused() -> None:
    """A small file whose aliases stand for a huge one ends in a sentence, not in a full memory."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "more than 100000 values" in messages("\n".join(lines))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "thredas: 2",
            "line 7: spec.server.thredas: unknown field; did you mean threads?",
        ),
        ("Threads: 2", "unknown field; did you mean threads?"),
        ("ready_deadline_seconds: 2", "did you mean readyDeadlineSeconds?"),
        ("protocol: GRPC", "unknown field here, but there is spec.load.protocol."),
        ("xyzzy: 1", "unknown field; the fields are runtime, device, gpu,"),
        ("threads: 0", "spec.server.threads: must be a whole number from 1 to 1024; found 0."),
        ('threads: "8"', 'found "8", which is a text: write it without quotes.'),
        ("threads: eight", 'must be a whole number from 1 to 1024; found "eight".'),
        ("threads: true", "must be a whole number from 1 to 1024; found true."),
        ("threads: 2.5", "must be a whole number from 1 to 1024; found 2.5."),
        ("threads: [1]", "must be a whole number from 1 to 1024; found a list of 1."),
        ("device: gpu", 'must be one of CPU, GPU; found "gpu"; did you mean GPU?'),
        ("runtime: onnx", 'found "onnx"; did you mean OnnxRuntime?'),
        ("gpu: {}", "spec.server.gpu: is only for device GPU."),
        ("resources: {cpu: 0.5}", 'found 0.5: write it in quotes, "0.5".'),
        ("resources: {cpu: lots}", "must be CPU cores, as Kubernetes writes them: 2,"),
        ("resources: [cpu]", "must be a mapping with the fields cpu, memory; found a list of 1."),
        ("batching: {}", "maxBatchSize: is missing, and must be a whole number from 1 to 4096."),
        ("placement: {nodeSelector: {a b: c}}", 'nodeSelector["a b"]: the key must be a name of'),
        ("placement: {nodeSelector: {a: 1}}", 'found 1: write it in quotes, "1".'),
        ("placement: {nodeSelector: {a: off}}", "as YAML reads false, no, off and n: write"),
        ("placement: {nodeSelector: {a: y}}", "found true, as YAML reads true, yes, on and y:"),
    ],
)
def test_a_wrong_field_gets_a_sentence(line: str, expected: str) -> None:
    """What was found, what is allowed and what to do stand in one line, with path and line."""
    assert expected in messages(OK.replace("threads: 2", line))


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (
            "server: {targetQps: 16.5}",
            'in quotes ("16.5"); found 16.5: write it in quotes, "16.5".',
        ),
        ("server: {targetQps: 16.5555}", 'in quotes ("16.5"); found 16.5555.'),
        ("server: {targetQps: 5, percentile: 99}", "P99, P99.9; found 99; did you mean P99?"),
        ("server: {targetQps: 5, percentile: 99.9}", "found 99.9; did you mean P99.9?"),
        (
            "server: {targetQps: 5, percentile: 7}",
            "one of P50, P90, P95, P97, P99, P99.9; found 7.",
        ),
        ("singleStream:", "found none; null means absent: write singleStream: {}."),
        ("singleStream: {}, offline: {}", "found singleStream and offline."),
        ("singleStream: {a: 1}", "spec.scenarios[0].singleStream takes none, write {}."),
        ("batch: {batchSizes: [8, 1, 8]}", "batchSizes[2]: stands at index 0 already: each value"),
        ("batch: {batchSizes: []}", "must be a list of 1 to 32 items; found a list of 0."),
        (
            "burst: {baseQps: 1, burstQps: 2, burstSeconds: 5, periodSeconds: 5}",
            (
                "burst.burstSeconds: must be less than periodSeconds: a burst ends before "
                "the next begins; found 5."
            ),
        ),
        ("batch: 8", "must be a mapping with the fields batchSizes; found 8."),
    ],
)
def test_a_wrong_scenario_gets_a_sentence(scenario: str, expected: str) -> None:
    """Members of a scenario are named as in the file."""
    assert expected in messages(OK.replace("singleStream: {}", scenario))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("percentile: P90", "line 11: spec.scenarios[1].server: MLPerf's server scenario has a"),
        ("percentile: P90", "or rules Default; found none."),
        (
            "latencyBoundMicroseconds: 9\n      percentile: P90",
            "or rules Default; found one for its P90.",
        ),
    ],
)
def test_a_scenario_outside_mlperf_is_reported_with_its_path(more: str, expected: str) -> None:
    """The scenario is named, and what it has; no right value is doubted."""
    message = messages(f"{OK}      {more}\n  validity: {{rules: MLPerf}}\n")
    assert expected in message
    assert "did you mean" not in message


def test_requests_larger_than_the_batch_are_reported_with_both_sizes() -> None:
    """Each scenario at fault has its line, its own figure and that of the server."""
    text = OK.replace("threads: 2", "batching: {maxBatchSize: 8}")
    text = text.replace("singleStream: {}", "batch: {batchSizes: [1, 9]}")
    text += "  - {name: all, offline: {batchSize: 16}}\n"
    message = messages(text)
    assert "spec.scenarios[0].batch: no scenario may send more samples" in message
    assert "found 9 in scenario latency, and maxBatchSize 8." in message
    assert "spec.scenarios[2].offline: no scenario may send more samples" in message
    assert "found 16 in scenario all, and maxBatchSize 8." in message


def test_all_problems_are_reported_at_once_in_file_order() -> None:
    """Several mistakes in one file are reported together, each with its line."""
    text = OK.replace("threads: 2", "threads: 0").replace("latency,", "Latency,")
    text = text.replace("targetQps: 200", "targetQps: -1")
    with pytest.raises(InvalidRunError) as caught:
        parse_run(text, source="run.yaml")
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("spec.server.threads", 7),
        ("spec.scenarios[0].name", 9),
        ("spec.scenarios[1].server.targetQps", 12),
    ]
    assert str(caught.value).startswith("run.yaml is not a valid BenchmarkRun; 3 problems:")


def test_a_long_value_is_shortened() -> None:
    """A very long wrong value is shown by its start and its length."""
    assert 'x..." (5000 characters)' in messages(OK.replace("a-run", "x" * 5000))


_JARGON = re.compile(r"[Ii]nput should|valid dictionary|instance of|Extra inputs|Value error|regex")


def test_no_problem_quotes_pydantic() -> None:
    """Every sentence about every wrong row is ours, ends as a sentence does, and is one line."""
    for row in rows():
        try:
            parse_run(row.text, source="row")
        except InvalidRunError as error:
            for problem in error.problems:
                assert not _JARGON.search(problem.message), problem
                assert problem.message.endswith((".", "?")), problem
                assert "\n" not in problem.message.removesuffix('"5\\n".'), problem


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_anything_in_place_of_a_field_is_refused_or_taken(value: object) -> None:
    """No value of a field makes the reading itself fail."""
    text = OK.replace("threads: 2", f"threads: {value!r}")
    try:
        parse_run(text, source="run.yaml")
    except InvalidRunError as error:
        assert error.problems  # noqa: PT017 - both ends are right, and this one says why


@given(st.text())
def test_any_text_is_refused_in_a_sentence(text: str) -> None:
    """Whatever a file holds, it is a run or refused; nothing else comes out."""
    with pytest.raises(InvalidRunError):
        parse_run(text, source="run.yaml")
