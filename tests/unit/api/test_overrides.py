"""A command line changes a run by path and value."""

import pytest

from inferometer_api.spec.reading import InvalidRunError, parse_run
from inferometer_api.spec.run import BenchmarkRun

RUN = """\
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: a-run}
spec:
  model: {uri: "zoo://classification/resnet50"}
  scenarios:
  - {name: latency, singleStream: {}}
  - {name: traffic, server: {targetQps: 200}}
  - {name: throughput, batch: {batchSizes: [1, 8]}}
"""


def run_with(path: str, value: str) -> BenchmarkRun:
    """Return the run with one setting."""
    return parse_run(RUN, source="run.yaml", overrides=[(path, value)])


def error_of(path: str, value: str) -> str:
    """Return what is said of a setting that is refused."""
    with pytest.raises(InvalidRunError) as caught:
        run_with(path, value)
    return str(caught.value)


def test_a_field_is_set_by_its_path() -> None:
    """A path leads through mappings that the file may lack."""
    assert run_with("spec.load.connections", "2").spec.load.connections == 2


@pytest.mark.parametrize("scenario", ["[1]", "[traffic]", '["traffic"]', "['traffic']"])
def test_an_item_is_found_by_index_or_name(scenario: str) -> None:
    """A scenario is named by its place or by its name."""
    run = run_with(f"spec.scenarios{scenario}.server.targetQps", "20")
    assert run.spec.scenarios[1].server is not None
    assert run.spec.scenarios[1].server.target_qps == 20


@pytest.mark.parametrize(("value", "rate"), [("12.5", "12.5"), ('"12.5"', "12.5"), ("8.0", 8)])
def test_a_rate_needs_no_quotes(value: str, rate: object) -> None:
    """A number with decimals is taken as written: no field is a float, a shell eats quotes."""
    server = run_with("spec.scenarios[traffic].server.targetQps", value).spec.scenarios[1].server
    assert server is not None
    assert server.target_qps == rate


def test_a_value_is_yaml() -> None:
    """Lists and mappings are set as a whole; null takes away."""
    sizes = run_with("spec.scenarios[throughput].batch.batchSizes", "[2, 4]").spec.scenarios[2]
    assert sizes.batch is not None
    assert sizes.batch.batch_sizes == [2, 4]
    assert run_with("spec.telemetry", "{power: Disabled}").spec.telemetry.power == "Disabled"
    assert run_with("spec.validity", "null").spec.validity.min_queries == 1024


def test_a_key_with_dots_is_quoted() -> None:
    """A key that is no plain word stands in brackets and quotes."""
    run = run_with('spec.server.placement.nodeSelector["kubernetes.io/arch"]', "amd64")
    assert run.spec.server.placement.node_selector == {"kubernetes.io/arch": "amd64"}


def test_later_settings_win() -> None:
    """Settings are made in order."""
    settings = [("spec.load.seed", "1"), ("spec.load.seed", "2")]
    assert parse_run(RUN, source="run.yaml", overrides=settings).spec.load.seed == 2


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("spec.laod.connections", "2", "spec.laod: unknown field; did you mean load?"),
        ("spec.load.conections", "2", "did you mean connections? It was set on the command line."),
        ("spec.load.connections", "many", 'found "many". It was set on the command line.'),
        (
            "spec.scenarios[trafic].server",
            "{}",
            "has no item named trafic; did you mean [traffic]?",
        ),
        ("spec.scenarios[other].server", "{}", "there is latency, traffic, throughput."),
        ("spec.scenarios[3].name", "a", "has 3 items, counted from 0: there is no [3]."),
        ("spec.model.uri.x", "a", "spec.model.uri is a text and has no x; set spec.model.uri as"),
        (".spec", "a", '".spec" is no path; write it as in the file'),
        ("spec..load", "a", '"..load" is no path'),
        ("spec[", "a", '"[" is no path'),
        ("", "a", "the path is empty"),
        ("spec.load", "{", "its value is no YAML: line 1"),
    ],
)
def test_a_setting_that_cannot_be_gets_a_sentence(path: str, value: str, expected: str) -> None:
    """A wrong path or value is reported with the existing names."""
    assert expected in error_of(path, value)


def test_the_run_file_keeps_its_line_numbers_with_overrides() -> None:
    """A mistake in the file is reported with its line, one on the command line without."""
    broken = RUN.replace("targetQps: 200", "targetQps: 0")
    with pytest.raises(InvalidRunError) as caught:
        parse_run(broken, source="run.yaml", overrides=[("spec.load.seed", "-1")])
    assert [problem.line for problem in caught.value.problems] == [8, None]
