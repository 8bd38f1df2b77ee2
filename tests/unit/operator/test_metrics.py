"""The operator exports metrics of the newest and the most urgent runs."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from docgen.metrics_page import metrics_page
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from inferometer_api.metrics.definitions import METRICS
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.timestamps import format_time
from inferometer_operator.reconcile.run_facts import RunFacts, spec_hash
from inferometer_operator.wiring import finished_runs
from inferometer_operator.wiring.metrics import MAX_ACTIVE_RUNS, exposition
from support.cluster_objects import EPOCH, Object, condition
from support.exported_runs import (
    MEASURED,
    STORED_URL,
    a_finished_run,
    a_raw_run,
    a_stored_run,
    operator_stats,
    scraped,
    values,
)
from support.runs import a_run

RUN = ("team", "a-run")
STEP = (*RUN, "latency", "")
BEGAN = EPOCH.timestamp()
OF_ONE_SCENARIO, MORE_OF_EACH_SCENARIO = 17, 14
"""Series of a finished run: its info, start and end, and of each scenario verdict, rate, queries,
errors, four percentiles, four parts of the server's time, energy gross and net."""


def test_every_metric_of_the_operator_is_exported_and_no_other() -> None:
    """Names, types, help and labels are those of the reference, plus the process metrics."""
    run = a_stored_run()
    stats = operator_stats(run, a_raw_run("b", phase="Starting", startTime="2026-03-12T14:00:00Z"))
    stats.count_api_error("500")
    text = exposition(stats)().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    wanted = {metric.name.removesuffix("_total"): metric for metric in METRICS["operator"]}
    assert {name for name in families if not name.startswith("process_")} == wanted.keys()
    assert "process_resident_memory_bytes" in families
    for name, metric in wanted.items():
        assert (families[name].type, families[name].documentation) == (metric.type, metric.help)
        labels = {frozenset(sample.labels) - {"le"} for sample in families[name].samples}
        assert labels == {frozenset(metric.labels)}, name


def test_the_gate_of_a_suite_is_a_series_for_each_outcome() -> None:
    """1 for the outcome of the last execution, and 0 for the others."""
    found = {
        sample.labels["outcome"]: (sample.value, sample.labels["armed"])
        for sample in scraped(operator_stats())
        if sample.name == "inferometer_suite_gate_status"
    }
    assert found == {
        "PASS": (0.0, "true"),
        "FAIL": (1.0, "true"),
        "INCONCLUSIVE": (0.0, "true"),
        "CouldNotRun": (0.0, "true"),
    }


def test_a_standby_exports_only_that_it_is_one() -> None:
    """Otherwise two replicas would export each run twice."""
    stats = operator_stats(a_finished_run())
    stats.is_leader = False
    assert [(sample.name, sample.value) for sample in scraped(stats)] == [
        ("inferometer_operator_leader", 0.0)
    ]


def test_a_leader_that_has_not_seen_the_runs_yet_counts_none() -> None:
    """A cluster that does not answer has not lost its runs."""
    stats = operator_stats()
    stats.runs_listed = False
    assert not any(sample.name.startswith("inferometer_run") for sample in scraped(stats))
    assert values(stats, "inferometer_operator_leader") == {(): 1.0}


def test_figures_are_exported_in_base_units() -> None:
    """Seconds, joules and queries per second, as its status has them."""
    stats = operator_stats(a_finished_run())
    for name, value in (
        ("valid", 1.0),
        ("queries_per_second", 123.4),
        ("queries", 2048.0),
        ("errors", 3.0),
    ):
        assert values(stats, f"inferometer_run_{name}") == {STEP: value}
    assert values(stats, "inferometer_run_latency_seconds") == {
        (*STEP, "50"): 0.0081,
        (*STEP, "90"): 0.009,
        (*STEP, "99"): 0.012345,
        (*STEP, "99.9"): 0.02,
    }
    assert values(stats, "inferometer_run_server_seconds") == {
        (*STEP, "queue"): 0.001,
        (*STEP, "compute_input"): 0.00002,
        (*STEP, "compute_infer"): 0.0065,
        (*STEP, "compute_output"): 0.00003,
    }
    assert values(stats, "inferometer_run_joules_per_inference") == {(*STEP, "shared"): 0.25}
    assert values(stats, "inferometer_run_net_joules_per_inference") == {(*STEP, "shared"): -0.001}
    assert values(stats, "inferometer_run_started_timestamp_seconds") == {RUN: BEGAN}
    assert values(stats, "inferometer_run_finished_timestamp_seconds") == {RUN: BEGAN + 60}
    ((labels, one),) = values(stats, "inferometer_run_info").items()
    facts = (*RUN, "uid-a-run", "resnet50", "OnnxRuntime", "CPU", "HTTP", "node1", "Complete")
    assert (labels[:-1], one) == (facts, 1.0)


def test_a_cold_start_has_its_seconds() -> None:
    """Other scenarios have no such series."""
    name = "inferometer_run_cold_start_seconds"
    assert values(operator_stats(a_stored_run()), name) == {STEP: 1.16}
    assert values(operator_stats(a_finished_run()), name) == {}


def test_a_stored_result_has_its_permanent_address() -> None:
    """Without the results service there is no series."""
    stats = operator_stats(a_stored_run())
    assert values(stats, "inferometer_run_stored_info") == {(*RUN, STORED_URL): 1.0}
    assert values(operator_stats(a_finished_run()), "inferometer_run_stored_info") == {}


def test_the_share_of_each_step_in_the_server_is_exported() -> None:
    """With pipeline Server; a run without steps has no such series."""
    name = "inferometer_run_pipeline_step_ratio"
    assert values(operator_stats(a_stored_run()), name) == {
        (*STEP, "decode"): 0.246914,
        (*STEP, "topK"): 0.000617,
    }
    assert values(operator_stats(a_finished_run()), name) == {}


def test_the_device_of_an_external_server_is_not_guessed() -> None:
    """The metric keeps an unknown device's own name."""
    url = "http://model.default.svc:8000"
    spec = {
        "model": {"name": "resnet50"},
        "server": {"runtime": "External", "external": {"url": url}},
    }
    conditions = [condition(name, "True", reason="Failed") for name in ("Failed", "Finished")]
    at = "2026-03-12T14:01:00Z"
    stats = operator_stats(
        a_raw_run(spec=spec, phase="Failed", completionTime=at, conditions=conditions)
    )
    (labels,) = values(stats, "inferometer_run_info")
    assert labels[len(RUN) : len(RUN) + 4] == ("uid-a-run", "resnet50", "External", "")


def test_figures_that_are_not_there_have_no_series() -> None:
    """Energy that is unavailable is no zero."""
    measured = {"name": "latency", "verdict": "INVALID", "energyAttribution": "unavailable"}
    stats = operator_stats(a_finished_run(scenarios=[measured]))
    names = Counter(sample.name for sample in scraped(stats))
    assert values(stats, "inferometer_run_valid") == {STEP: 0.0}
    for absent in (
        "joules_per_inference",
        "net_joules_per_inference",
        "latency_seconds",
        "server_seconds",
    ):
        assert names[f"inferometer_run_{absent}"] == 0


@pytest.mark.parametrize(
    ("reason", "spec", "model"),
    [("DeadlineExceeded", {}, "resnet50"), ("InvalidSpec", {"scenarios": []}, "")],
)
def test_a_failed_run_exports_its_reason(reason: str, spec: dict[str, Any], model: str) -> None:
    """A run with an unreadable spec, or that never began, is finished too."""
    conditions = [condition("Failed", "True", reason=reason), condition("Finished", "True")]
    conditions[1]["reason"] = "Failed"
    at = "2026-03-12T14:01:00Z"
    stats = operator_stats(
        a_raw_run(spec=spec, phase="Failed", completionTime=at, conditions=conditions)
    )
    ((labels, _),) = values(stats, "inferometer_run_info").items()
    assert (labels[3], labels[8], bool(labels[9])) == (model, reason, bool(model))
    assert values(stats, "inferometer_run_started_timestamp_seconds") == {}
    assert values(stats, "inferometer_runs")["Failed",] == 1.0


@pytest.mark.parametrize(
    ("scenarios", "each"),
    [(1, OF_ONE_SCENARIO), (3, OF_ONE_SCENARIO + 2 * MORE_OF_EACH_SCENARIO)],
)
def test_the_newest_200_finished_runs_have_so_many_series(scenarios: int, each: int) -> None:
    """In whatever order they are listed; no memory of older ones is kept."""
    names = [f"s{number}" for number in range(scenarios)]
    runs = [a_finished_run(f"r{n}", number=n, names=names) for n in range(MAX_ACTIVE_RUNS + 3)]
    stats = operator_stats(*runs[::2], *runs[-2::-2])
    text = exposition(stats)().decode()
    assert f'inferometer_runs{{phase="Complete"}} {MAX_ACTIVE_RUNS + 3}.0' in text
    assert series(text) == {f"r{n}": each for n in range(3, MAX_ACTIVE_RUNS + 3)}
    stats.remove_run("uid-r100")
    now_told = {f"r{n}" for n in range(3, MAX_ACTIVE_RUNS + 3)} - {"r100"}
    assert series(exposition(stats)().decode()).keys() == now_told


def series(text: str) -> Counter[str]:
    """Return how many series each run has on a page."""
    return Counter(re.findall(r'^inferometer_.*[{,]run="([^"]+)"', text, re.MULTILINE))


@pytest.mark.parametrize(
    ("phase", "since", "status"),
    [
        ("", 0, {}),
        ("Queued", 5, {"conditions": [condition("Accepted", "True", reason="Queued")]}),
        ("Starting", 7, {"startTime": "2026-03-12T14:00:07Z"}),
        (
            "Measuring",
            9,
            {
                "startTime": "2026-03-12T14:00:07Z",
                "conditions": [condition("Measuring", "True", reason="Measuring")],
            },
        ),
        (
            "Complete",
            11,
            {
                "startTime": "2026-03-12T14:00:07Z",
                "completionTime": "2026-03-12T14:00:11Z",
                "conditions": [condition("Complete", "True", reason="Measured")],
            },
        ),
    ],
)
def test_an_unfinished_run_exports_its_phase_start_and_deadline(
    phase: str, since: int, status: dict[str, Any]
) -> None:
    """A stuck run shows by both; one that has not begun has no deadline yet."""
    for each in status.get("conditions", ()):
        each["lastTransitionTime"] = f"2026-03-12T14:00:{since:02}Z"
    full_status = {**status, **({"phase": phase} if phase else {})}
    stats = operator_stats(a_raw_run(spec={"activeDeadlineSeconds": 100}, **full_status))
    assert values(stats, "inferometer_run_phase_since_timestamp_seconds") == {
        (*RUN, phase or "Pending"): BEGAN + since
    }
    deadlines = {RUN: BEGAN + 107} if "startTime" in status else {}
    assert values(stats, "inferometer_run_deadline_timestamp_seconds") == deadlines
    assert values(stats, "inferometer_runs")[phase or "Pending",] == 1.0
    assert values(stats, "inferometer_run_info") == {}


def test_a_run_of_a_deleted_ones_name_takes_its_place() -> None:
    """Two would be one series: Prometheus refuses the whole page."""
    stats = operator_stats(a_finished_run())
    again = a_finished_run()
    again["metadata"] |= {"uid": "another", "resourceVersion": "2"}
    stats.update_run(again)
    assert len(stats.runs) == 1
    stats.remove_run("uid-a-run")
    ((labels, _),) = values(stats, "inferometer_run_info").items()
    assert labels[2] == "another"


def test_a_version_of_a_run_is_read_once() -> None:
    """A watch repeats every run each five minutes; only a new version changes the metrics."""
    stats = operator_stats(a_finished_run())
    (before,) = stats.runs
    stats.update_run(a_finished_run())
    assert stats.runs[0] is before
    changed = a_finished_run(scenarios=[{"name": "latency", **MEASURED, "queries": 7}])
    page = exposition(stats)
    page()
    changed["metadata"]["resourceVersion"] = "2"
    stats.update_run(changed)
    assert values(stats, "inferometer_run_queries") == {STEP: 7.0}
    assert b'step=""} 7.0' in page()


def test_a_finished_run_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape stops the loop that carries runs out; a new run is the only one written then."""
    written: list[str] = []
    samples = finished_runs._samples

    def counted(run: RunFacts) -> Iterator[Any]:
        written.append(run.name)
        return samples(run)

    monkeypatch.setattr(finished_runs, "_samples", counted)
    stats = operator_stats(a_finished_run("a"), a_finished_run("b"))
    page = exposition(stats)
    once, twice = page(), page()
    stats.update_run(a_finished_run("c"))
    page()
    assert sorted(written) == ["a", "b", "c"]
    assert (
        series(once.decode())
        == series(twice.decode())
        == {"a": OF_ONE_SCENARIO, "b": OF_ONE_SCENARIO}
    )


@pytest.mark.parametrize("step", ['a"b', "a\\nb", "a\nb", "a\\"])
def test_whatever_a_run_names_is_one_label(step: str) -> None:
    """As prometheus-client writes and reads it."""
    stats = operator_stats(
        a_finished_run(scenarios=[{"name": "latency", **MEASURED, "step": step}])
    )
    assert values(stats, "inferometer_run_valid") == {(*RUN, "latency", step): 1.0}


def test_of_201_runs_the_stuck_one_is_exported() -> None:
    """What has begun comes first, the longest in its phase before others; who queues comes last."""

    def exposed_runs(*runs: Object) -> set[str]:
        since = "inferometer_run_phase_since_timestamp_seconds"
        return {run for _, run, _ in values(operator_stats(*runs), since)}

    def starting(number: int) -> Object:
        at = format_time(EPOCH + timedelta(seconds=number))
        return a_raw_run(f"r{number}", phase="Starting", startTime=at)

    begun = [starting(number) for number in range(MAX_ACTIVE_RUNS + 1)]
    assert exposed_runs(*begun) == {f"r{number}" for number in range(MAX_ACTIVE_RUNS)}
    queued = [a_raw_run(f"q{number}", phase="Queued") for number in range(MAX_ACTIVE_RUNS)]
    assert "r200" in exposed_runs(*queued, begun[-1])


def test_the_most_series_that_finished_runs_have_stand_in_the_docs() -> None:
    """As many as the API lets a run have scenarios."""
    names = [f"s{number}" for number in range(32)]
    text = exposition(operator_stats(a_finished_run(names=names)))().decode()
    assert f"{series(text)['a-run'] * MAX_ACTIVE_RUNS:,} at most" in metrics_page()
    scenarios = [{"name": f"s{number}", "singleStream": {}} for number in range(33)]
    with pytest.raises(ValidationError):
        BenchmarkRun.model_validate(a_run(scenarios=scenarios))


def test_scenarios_of_one_name_are_one_series() -> None:
    """The last of them counts."""
    twice = [{"name": "latency", **MEASURED, "queries": count} for count in (1, 2)]
    stats = operator_stats(a_finished_run(scenarios=twice))
    assert values(stats, "inferometer_run_queries") == {STEP: 2.0}


def test_how_long_a_look_took_is_a_histogram() -> None:
    """Its buckets are cumulated, and end with all."""
    stats = operator_stats()
    for seconds in (0.0, 0.5e-6, 0.01, 1000.0):
        stats.reconcile_durations.observe(seconds)
    name = "inferometer_operator_reconcile_duration_seconds"
    buckets = [sample.value for sample in scraped(stats) if sample.name == f"{name}_bucket"]
    assert buckets == sorted(buckets)
    assert (buckets[0], buckets[-2], buckets[-1]) == (2.0, 3.0, 4.0)
    assert values(stats, f"{name}_count") == {(): 4.0}
    assert values(stats, f"{name}_sum")[()] == pytest.approx(1000.01)


def read(**spec: Any) -> BenchmarkRun:
    """Return a valid run."""
    return BenchmarkRun.model_validate(a_run(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"load": {"seed": 7}},
        {"retention": {"ttlSecondsAfterFinished": 1}},
        {"telemetry": {"idleSeconds": 0}},
        {"load": {"protocol": "HTTP"}},
    ],
)
def test_runs_with_the_same_measurement_share_a_hash(spec: dict[str, Any]) -> None:
    """Whatever their seed, their deadline, or what they spell out of the defaults."""
    assert spec_hash(read(**spec)) == spec_hash(read())


@pytest.mark.parametrize(
    "spec",
    [
        {"load": {"protocol": "GRPC"}},
        {"server": {"resources": {"cpu": 2}}},
        {"model": {"uri": "zoo://classification/alexnet"}},
        {"scenarios": [{"name": "other", "singleStream": {}}]},
        {"validity": {"warmUpSeconds": 1}},
    ],
)
def test_runs_with_another_measurement_have_another_hash(spec: dict[str, Any]) -> None:
    """They are not to be compared."""
    assert spec_hash(read(**spec)) != spec_hash(read())
