"""The dashboards' queries separate runs of one name, verdicts and operators."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.dashboards import interpolated, queries
from support.prometheus import check

_QUERIES = {query.where: query for query in queries()}
_SAME = 'run_namespace="bench", run="same", instance="operator"'
_END = "5m"
"""Each value of a series stands for 5 s: 61 of them fill five minutes."""
_VALID, _INVALID = "1x60", "0x60"
_OF_WHAT = 'model="m", runtime="r", device="CPU", protocol="HTTP", node="n"'
_RATE = "inferometer_run_queries_per_second"
_JOULES = "inferometer_run_joules_per_inference"


def _gives(
    folder: Path, where: str, series: Mapping[str, str], wanted: Mapping[str, float]
) -> None:
    """Let promtool find out whether a query gives these samples at the end, by their labels."""
    chosen = {"by": "namespaced_run"}
    if where.startswith("run"):
        chosen |= {"run_namespace": "bench", "run": "same"}
    query_test = {
        "expr": interpolated(_QUERIES[where].expr, chosen),
        "eval_time": _END,
        "exp_samples": [{"labels": labels, "value": value} for labels, value in wanted.items()],
    }
    known = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "5s", "input_series": known, "promql_expr_test": [query_test]}
    file = folder / "answers.test.yaml"
    file.write_text(json.dumps({"rule_files": [], "tests": [test]}), encoding="utf-8")
    done = check("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def _verdict(scenario: str) -> str:
    return f'inferometer_run_valid{{{_SAME}, scenario="{scenario}"}}'


_ENDED = f"inferometer_run_finished_timestamp_seconds{{{_SAME}}}"
_GOES_ON = f'inferometer_run_phase_since_timestamp_seconds{{{_SAME}, phase="Measuring"}}'
_RESULTS: Mapping[str, tuple[Mapping[str, str], Mapping[str, int]]] = {
    "over": ({_verdict("one"): "1x60", _ENDED: "1000x60"}, {"one": 1}),
    "going on, after another": (
        {
            _verdict("one"): "0x20 stale",
            _ENDED: "1000x20 stale",
            _GOES_ON: "_x22 2000x38",
        },
        {},
    ),
    "over, after one with more scenarios": (
        {
            _verdict("gone"): "0x20 stale",
            _verdict("one"): "1x20 stale _x10 1x28",
            _ENDED: "1000x20 stale _x10 2000x28",
        },
        {"one": 1},
    ),
    "deleted": ({_verdict("one"): "0x20 stale", _ENDED: "1000x20 stale"}, {"one": 0}),
    "deleted, after one with more scenarios": (
        {
            _verdict("gone"): "0x8 stale",
            _verdict("one"): "_x13 1x8 stale",
            _ENDED: "1000x8 stale _x3 2000x8 stale",
        },
        {"one": 1},
    ),
}


@pytest.mark.parametrize("case", _RESULTS)
def test_a_result_is_of_the_run_that_is_shown(case: str, tmp_path: Path) -> None:
    """Tile and table have the verdicts of the latest run of a name, and none while it goes on."""
    series, wanted = _RESULTS[case]
    rows = {f'{{scenario="{name}"}}': value for name, value in wanted.items()}
    _gives(tmp_path, "run: Result: A", series, rows)
    tile = {"{}": min(wanted.values())} if wanted else {}
    _gives(tmp_path, "run: Verdict: A", series, tile)


_COUNTED = f'inferometer_load_queries_total{{{_SAME}, scenario="one", result="ok"}}'
_TEN_A_SECOND = "0+50x60"
_FOUND = {
    f'{_RATE}{{{_SAME}, scenario="one"}}': "_x50 4x10",
    f'{_RATE}{{{_SAME}, scenario="two"}}': "_x50 6x10",
    f'inferometer_run_valid{{{_SAME}, scenario="one"}}': "_x50 1x10",
    _ENDED: "_x50 1000x10",
}


def test_a_tile_is_live_while_the_run_goes_on(tmp_path: Path) -> None:
    """Before the operator reports a result, and while a later run of the name measures."""
    live = {'{scenario="live"}': 10}
    _gives(tmp_path, "run: Rate: A", {_COUNTED: _TEN_A_SECOND}, live)
    again = {_COUNTED: _TEN_A_SECOND, _GOES_ON: "1x60"}
    _gives(tmp_path, "run: Rate: A", _FOUND | again, live)


def test_a_tile_has_the_result_of_a_finished_run(tmp_path: Path) -> None:
    """Each scenario's own figure, as the table has it, however the live one falls off."""
    wanted = {'{scenario="one"}': 4, '{scenario="two"}': 6}
    _gives(tmp_path, "run: Rate: A", _FOUND | {_COUNTED: _TEN_A_SECOND}, wanted)


def test_a_tile_of_a_finished_run_has_no_live_figure_for_what_was_not_found(tmp_path: Path) -> None:
    """Without joules in the result the tile is empty; errors are of all queries."""
    counts = {
        f'inferometer_run_errors{{{_SAME}, scenario="one"}}': "3x60",
        f'inferometer_run_queries{{{_SAME}, scenario="one"}}': "6x60",
    }
    live = {
        f'inferometer_load_samples_total{{{_SAME}, scenario="one"}}': _TEN_A_SECOND,
        f'inferometer_load_stage{{{_SAME}, scenario="one", stage="Measuring"}}': "1x60",
        f'inferometer_load_server_info{{{_SAME}, node="n", target="t"}}': "1x60",
        'inferometer_node_energy_joules_total{node="n", domain="gpu-0", kind="Gpu"}': "0+100x60",
    }
    joules = "run: Joules per inference: A"
    _gives(tmp_path, joules, live, {'{scenario="live"}': 2})
    _gives(tmp_path, joules, _FOUND | live, {})
    share = {'{scenario="one"}': 0.5}
    _gives(tmp_path, "run: Errors: A", _FOUND | live | counts | {_COUNTED: _TEN_A_SECOND}, share)
    p99 = f'inferometer_run_latency_seconds{{{_SAME}, scenario="one", percentile="99"}}'
    _gives(tmp_path, "run: p99: A", _FOUND | {p99: "0.25x60"}, {'{scenario="one"}': 0.25})


def test_silent_sources_are_counted_while_an_agent_answers(tmp_path: Path) -> None:
    """No agent is no figure, not a green 0."""
    source = "inferometer_agent_source_available"
    gives, silent = (f'{source}{{node="n", source="{name}"}}' for name in ("rapl", "nvml"))
    where = "nodes: Unavailable sources: A"
    _gives(tmp_path, where, {}, {})
    _gives(tmp_path, where, {gives: "1x20 stale"}, {})
    _gives(tmp_path, where, {gives: "1x60"}, {"{}": 0})
    _gives(tmp_path, where, {gives: "1x60", silent: "0x60"}, {"{}": 1})


_MEASURED = {
    "B": "memory_bytes_per_second",
    "C": "load_latency_seconds",
    "D": "fp32_operations_per_second",
    "E": "disk_read_bytes_per_second",
    "F": "wake_up_lag_seconds",
}
"""The figures of the table of measured nodes."""


@pytest.mark.parametrize("column", _MEASURED)
def test_the_table_of_measured_nodes_has_a_row_for_each_node(column: str, tmp_path: Path) -> None:
    """One figure of each, although two operators know it; one that has expired is gone."""
    name = f"inferometer_node_benchmark_{_MEASURED[column]}"
    series = {
        f'{name}{{node="a", instance="one"}}': "4x60",
        f'{name}{{node="a", instance="two"}}': "4x60",
        f'{name}{{node="b", instance="one"}}': "6x60",
        f'{name}{{node="expired", instance="one"}}': "8x20 stale",
    }
    where = f"nodes: Measured nodes: {column}"
    _gives(tmp_path, where, series, {'{node="a"}': 4, '{node="b"}': 6})


def test_the_age_of_a_measurement_is_shown(tmp_path: Path) -> None:
    """In milliseconds, as Grafana takes times."""
    name = "inferometer_node_benchmark_finished_timestamp_seconds"
    series = {f'{name}{{node="a", instance="one"}}': "1000x60"}
    _gives(tmp_path, "nodes: Measured nodes: A", series, {'{node="a"}': 1_000_000})


def _finished(namespace: str, run: str, verdict: str, **joules: str) -> dict[str, str]:
    """Return the series of a finished run: its rate is 4, its joules are by their attribution."""
    name = f'run_namespace="{namespace}", run="{run}"'
    step = f'{name}, scenario="traffic"'
    series = {
        f"inferometer_run_info{{{name}, {_OF_WHAT}}}": "1x60",
        f"inferometer_run_valid{{{step}}}": verdict,
        f"{_RATE}{{{step}}}": "4x60",
    }
    return series | {
        f'{_JOULES}{{{step}, attribution="{attribution}"}}': f"{value}x60"
        for attribution, value in joules.items()
    }


def test_bars_distinguish_namespaces(tmp_path: Path) -> None:
    """Runs of one name in two namespaces have two bars."""
    series = _finished("bench", "same", _VALID) | _finished("other", "same", _VALID)
    wanted = {'{bar="bench/same/traffic"}': 4, '{bar="other/same/traffic"}': 4}
    _gives(tmp_path, "compare: Rate: A", series, wanted)


def test_invalid_runs_have_no_bars(tmp_path: Path) -> None:
    """What a run without validity found is in the table alone, next to its verdict."""
    series = _finished("bench", "one", _VALID) | _finished("bench", "two", _INVALID)
    _gives(tmp_path, "compare: Rate: A", series, {'{bar="bench/one/traffic"}': 4})
    rows = {
        f'{{run_namespace="bench", run="{run}", scenario="traffic", {_OF_WHAT}}}': 4
        for run in ("one", "two")
    }
    _gives(tmp_path, "compare: Runs: D", series, rows)


_URL = "http://127.0.0.1:8091/results/0e9b"


def test_rows_of_stored_runs_have_the_address_of_their_result(tmp_path: Path) -> None:
    """In Compare the other runs have none; in Run it is that of the run, also once it is gone."""
    series = _finished("bench", "one", _VALID) | _finished("bench", "two", _INVALID)
    stored = {
        f'inferometer_run_stored_info{{run_namespace="bench", run="one", url="{_URL}"}}': "1x60"
    }
    row = f'{{run_namespace="bench", run="one", scenario="traffic", url="{_URL}", {_OF_WHAT}}}'
    _gives(tmp_path, "compare: Runs: L", series | stored, {row: 1})
    of_run = f'inferometer_run_stored_info{{{_SAME}, url="{_URL}"}}'
    result = {_verdict("one"): "1x60", _ENDED: "1000x60", of_run: "_x5 1x55"}
    wanted = {f'{{scenario="one", url="{_URL}"}}': 1}
    _gives(tmp_path, "run: Result: L", result, wanted)
    gone = {name: values.split("x")[0] + "x30 stale" for name, values in result.items()}
    _gives(tmp_path, "run: Result: L", gone | {of_run: "1x30 stale"}, wanted)


def test_cold_starts_have_bars_and_a_column(tmp_path: Path) -> None:
    """In Compare one bar for each VALID run; in Run it is that of the run, also once it is gone."""
    series = _finished("bench", "one", _VALID) | _finished("bench", "two", _INVALID)
    took = "inferometer_run_cold_start_seconds"
    starts = {
        f'{took}{{run_namespace="bench", run="{run}", scenario="traffic"}}': f"{seconds}x60"
        for run, seconds in {"one": 3, "two": 5}.items()
    }
    _gives(tmp_path, "compare: Cold start: A", series | starts, {'{bar="bench/one/traffic"}': 3})
    of_run = f'{took}{{{_SAME}, scenario="one"}}'
    result = {_verdict("one"): "1x60", _ENDED: "1000x60", of_run: "3x60"}
    wanted = {'{scenario="one"}': 3}
    _gives(tmp_path, "run: Result: K", result, wanted)
    gone = {name: values.split("x")[0] + "x30 stale" for name, values in result.items()}
    _gives(tmp_path, "run: Result: K", gone, wanted)


def test_joules_of_different_attributions_have_bars_of_their_own(tmp_path: Path) -> None:
    """A node's joules and a share of them are not one median."""
    series = _finished("bench", "one", _VALID, node="30") | _finished(
        "bench", "two", _VALID, shared="10"
    )
    by_run = {'{bar="bench/one/traffic node"}': 30, '{bar="bench/two/traffic shared"}': 10}
    _gives(tmp_path, "compare: Joules per inference: A", series, by_run)
    by_node = {'{bar="n/m/traffic node"}': 30, '{bar="n/m/traffic shared"}': 10}
    _gives(tmp_path, "nodes: Joules per inference by node: A", series, by_node)


def test_each_operator_has_its_leader(tmp_path: Path) -> None:
    """Operators in two namespaces, one of them with a replica that stands by, are two figures."""
    leader = "inferometer_operator_leader"
    series = {
        f'{leader}{{namespace="a", job="operator", instance="1"}}': "1x60",
        f'{leader}{{namespace="a", job="operator", instance="2"}}': "0x60",
        f'{leader}{{namespace="b", job="operator", instance="3"}}': "1x60",
    }
    wanted = {'{namespace="a", job="operator"}': 1, '{namespace="b", job="operator"}': 1}
    _gives(tmp_path, "operator: Leaders: A", series, wanted)
