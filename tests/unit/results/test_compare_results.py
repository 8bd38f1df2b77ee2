"""Two results are compared figure by figure, and regressions fail a pipeline."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from inferometer_api.results.result import Energy, ResultDocument, ScenarioResult, Step, Verdict
from inferometer_api.status.run_status import Attribution
from inferometer_cli.cluster.options import ClusterOptions
from inferometer_cli.exits import ExitCode
from inferometer_cli.result_file import is_file
from inferometer_cli.tables.comparison import shown_difference
from inferometer_results.compare.comparison import compare, compare_rounds
from inferometer_results.compare.differences import differences
from inferometer_results.compare.figures import measured
from inferometer_results.compare.gate import gate
from support.any_results import any_results
from support.command import Command
from support.compared_results import LATENCY, repeats_of, slower_step, with_service
from support.results import a_result, a_run, a_valid_result, an_environment, an_unfinished_result
from support.steps import Load, a_step


@pytest.fixture
def inferometer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs a command line in this process."""
    return Command(monkeypatch, capsys)


def with_steps(document: ResultDocument, change: Callable[[Step], Step]) -> ResultDocument:
    """Return a document whose steps are changed."""
    scenarios = [
        each.model_copy(update={"steps": [change(step) for step in each.steps]})
        for each in document.scenarios
    ]
    return document.model_copy(update={"scenarios": scenarios})


def reasons(before: ResultDocument, after: ResultDocument, margin: float = 0.05) -> list[str]:
    """Return why it is not shown that the second result is no worse."""
    return list(gate(before, after, compare(before, after, margin=margin, is_gate=True)).reasons)


def words(before: ResultDocument, after: ResultDocument) -> dict[str, str]:
    """Return the judgement of each figure of the first step."""
    return {each.name: each.word for each in compare(before, after).pairs[0].figures}


def test_a_slower_server_is_seen_in_its_rate_and_its_latencies() -> None:
    """20 % slower is worse in both, and better if the results are swapped."""
    before, after = repeats_of(with_service(20.0)), repeats_of(with_service(24.0, seed=8))
    found = words(before, after)
    assert {found[name] for name in ("queries/s", "p50", "p90")} == {"worse"}
    assert {words(after, before)[name] for name in ("queries/s", "p50")} == {"better"}
    failed = gate(before, after, compare(before, after, margin=0.05))
    assert {figure.name for _, figure in failed.failures} >= {"queries/s", "p50", "p90"}
    assert failed.decision == "FAIL"
    for margin, first, second in ((0.5, before, after), (0.05, after, before)):
        passed = gate(first, second, compare(first, second, margin=margin))
        assert (passed.decision, passed.failures, passed.reasons) == ("PASS", (), ())


@pytest.mark.parametrize(("few", "many"), [(1, 1), (1, 3), (3, 1), (2, 3), (2, 2)])
def test_fewer_than_three_repeats_show_no_difference(few: int, many: int) -> None:
    """Whatever the bounds within one run: another run of the same server may differ as much."""
    before, after = repeats_of(with_service(20.0), few), repeats_of(with_service(30.0), many)
    found = words(before, after)
    assert {found[name] for name in ("queries/s", "p50", "p90")} == {"not judged"}
    judged = gate(before, after, compare(before, after, margin=0.05))
    assert judged.decision == "INCONCLUSIVE"
    (reason,) = judged.reasons
    assert f"{few} in A" in reason or few >= 3
    assert f"{many} in B" in reason or many >= 3
    assert "inferometer ab" in reason


def test_a_run_is_not_different_from_itself() -> None:
    """There are no differences, neither in the figures nor in the environment."""
    document = a_result()
    comparison = compare(document, document)
    assert {figure.word for pair in comparison.pairs for figure in pair.figures} <= {
        "not judged",
        "unknown",
        "by schedule",
    }
    assert differences(document, document) == []
    repeated_document = repeats_of(with_service(20.0))
    assert set(words(repeated_document, repeated_document).values()) <= {"equal", "unknown"}


def test_what_only_one_result_has_is_named() -> None:
    """Scenarios are matched by name, their steps by label."""
    comparison = compare(a_result(), a_valid_result())
    assert [pair.before.scenario for pair in comparison.pairs] == ["latency"]
    assert comparison.only_before == (
        "traffic",
        *(f"throughput, batch {size}" for size in (1, 8, 32)),
    )
    assert comparison.only_after == ()


def repeated(milliseconds: float) -> ResultDocument:
    """Return a run whose scenario was repeated three times, with energy."""
    scenarios = []
    for repeat in (1, 2, 3):
        one = with_service(milliseconds + repeat / 100, seed=repeat).scenarios[0]
        energy = Energy(attribution="shared", microjoules_per_inference=500_000 + repeat)
        step = one.steps[0].model_copy(update={"energy": energy})
        scenarios.append(one.model_copy(update={"repeat": repeat, "steps": [step]}))
    return with_service(1.0, scenarios=scenarios)


def test_repeats_give_the_bounds() -> None:
    """With repeats every figure has bounds, energy too, which cover variation between runs."""
    comparison = compare(repeated(20.0), repeated(22.0))
    assert (comparison.basis_before, comparison.basis_after) == ("repeats", "repeats")
    (pair,) = comparison.pairs
    assert pair.before.basis == "repeats"
    found = {figure.name: figure for figure in pair.figures}
    assert found["p50"].word == "worse"
    energy = found["J/inference"]
    assert energy.before.estimate is not None
    assert energy.before.estimate.value == pytest.approx(500_002)
    assert energy.word == "equal"


@pytest.mark.parametrize("wrong", [1, 3])
def test_one_invalid_repeat_makes_the_scenario_invalid(wrong: int) -> None:
    """A figure over all repeats is as wrong as the worst of them, whichever that is."""
    scenarios = [
        each.model_copy(update={"verdict": Verdict(state="INVALID")})
        if each.repeat == wrong
        else each
        for each in repeated(20.0).scenarios
    ]
    assert [each.verdict for each in measured(scenarios).values()] == ["INVALID"]
    assert [each.verdict for each in measured(repeated(20.0).scenarios).values()] == ["VALID"]


_OF_ONE_RUN = "within this window (percentiles: order statistics"


@pytest.mark.parametrize(
    ("before", "after", "bounds"),
    [
        (
            repeated(20.0),
            repeated(22.0),
            "A and B are 95 % confidence bounds over the repeats of each scenario.",
        ),
        (with_service(20.0), with_service(22.0), f"A and B are 95 % bounds {_OF_ONE_RUN}"),
        (
            repeated(20.0),
            with_service(22.0),
            f"A are 95 % bounds over the repeats of each scenario, those of B {_OF_ONE_RUN}",
        ),
        (
            with_service(20.0),
            repeated(22.0),
            f"B are 95 % bounds over the repeats of each scenario, those of A {_OF_ONE_RUN}",
        ),
    ],
    ids=["both repeated", "neither", "only A", "only B"],
)
def test_the_source_of_bounds_is_printed_for_each_result(
    inferometer: Command,
    tmp_path: Path,
    before: ResultDocument,
    after: ResultDocument,
    bounds: str,
) -> None:
    """A repeated result is described as such, whatever the other one is."""
    shown = inferometer(
        "compare", write_result(tmp_path, "a", before), write_result(tmp_path, "b", after)
    ).stdout
    text = " ".join(shown.split())
    assert f"Bounds of {bounds}" in text
    assert ("do not cover what differs from run to run" in text) == ("within this window" in text)


def test_a_partly_repeated_run_is_described_as_such(inferometer: Command, tmp_path: Path) -> None:
    """If only some scenarios have repeats, neither of the simple sentences is printed."""
    run = a_run([LATENCY, {"name": "again", "singleStream": {}}])
    again = with_service(20.0).scenarios[0].model_copy(update={"name": "again"})
    document = repeated(20.0)
    both = document.model_copy(update={"run": run, "scenarios": [*document.scenarios, again]})
    path = write_result(tmp_path, "both", both)
    assert "bounds over repeats if there are any, else within this window (perc" in " ".join(
        inferometer("compare", path, path).stdout.split()
    )


def test_energy_is_compared_and_fails_no_pipeline() -> None:
    """A gate looks at rates and latencies only, however often energy was measured."""

    def spending(microjoules: int) -> ResultDocument:
        energy = Energy(attribution="dedicated", microjoules_per_inference=microjoules)
        return with_steps(
            with_service(20.0), lambda step: step.model_copy(update={"energy": energy})
        )

    before, after = repeats_of(spending(1_000_000)), repeats_of(spending(3_000_000))
    comparison = compare(before, after)
    (figure,) = (each for each in comparison.pairs[0].figures if each.name == "J/inference")
    assert figure.ratio == pytest.approx(3)
    assert figure.word == "worse"
    assert gate(before, after, comparison).decision == "PASS"


def test_differences_of_spec_and_environment_are_grouped() -> None:
    """Model, spec, machine, server and software, in this order; addresses and times are ignored."""
    environment = an_environment()
    node = environment.node.model_copy(update={"hostname": "other", "cpu_governor": "powersave"})
    model = environment.model.model_copy(update={"sha256": "f" * 64})
    server = environment.server.model_copy(update={"url": "http://127.0.0.1:1", "version": "9"})
    changed = environment.model_copy(
        update={
            "node": node,
            "model": model,
            "server": server,
            "packages": {**environment.packages, "numpy": "0.1"},
        }
    )
    run = a_run().model_dump(by_alias=True, exclude_none=True)
    run["spec"]["scenarios"][1]["server"]["targetQps"] = "40"
    other = a_result(
        environment=changed,
        run=type(a_run()).model_validate(run),
        run_id="another",
        started_at="2026-03-13T00:00:00Z",
    )
    found = [(each.heading, each.name) for each in differences(a_result(), other)]
    assert found == [
        ("Model", "sha256"),
        ("Spec", "spec.scenarios[traffic].server.targetQps"),
        ("Machine", "hostname"),
        ("Machine", "cpuGovernor"),
        ("Server", "version"),
        ("Software", "numpy"),
    ]


def test_what_cannot_be_judged_is_listed() -> None:
    """An incomplete run, an INVALID scenario and a missing one each add a doubt."""
    before, after = a_result(), an_unfinished_result()
    doubts = "\n".join(reasons(before, after))
    assert "B is Interrupted" in doubts
    assert "traffic is INVALID in A" in doubts
    assert "throughput, batch 8 is missing in B" in doubts
    same = repeats_of(with_service(20.0))
    assert reasons(same, same) == []


@settings(max_examples=40)
@given(any_results(), any_results())
def test_any_two_documents_can_be_compared(before: ResultDocument, after: ResultDocument) -> None:
    """Whatever they contain or lack, the comparison does not fail."""
    gate(before, after, compare(before, after, is_gate=True))
    differences(before, after)


def write_result(folder: Path, name: str, document: ResultDocument) -> str:
    """Write a result as `inferometer run` does; return its path."""
    path = folder / f"{name}.json"
    path.write_text(document.model_dump_json(exclude_none=True), encoding="utf-8")
    return str(path)


def test_a_regression_exits_with_4(inferometer: Command, tmp_path: Path) -> None:
    """The slower figures are named; without the option the comparison is only printed."""
    before = write_result(tmp_path, "before", repeats_of(with_service(20.0)))
    after = write_result(tmp_path, "after", repeats_of(with_service(24.0, seed=8)))
    shown = inferometer("compare", before, after)
    assert shown.code == ExitCode.VALID
    assert "worse" in shown.stdout
    failed = inferometer("compare", before, after, "--fail-if-slower", "5%")
    assert failed.code == ExitCode.SLOWER
    assert "slower: latency, p50" in failed.stderr
    assert "FAIL: B is more than 5 % worse than A." in failed.stdout
    passed = inferometer("compare", after, before, "--fail-if-slower", "5%")
    assert passed.code == ExitCode.VALID
    assert "PASS: " in passed.stdout
    assert "Minimum detectable effect: 5." in passed.stdout
    assert inferometer("compare", before, after, "--fail-if-slower", "60").code == ExitCode.VALID


def test_single_runs_exit_with_5_or_as_the_user_decides(
    inferometer: Command, tmp_path: Path
) -> None:
    """Two single runs show nothing, with advice; --inconclusive pass lets a pipeline go on."""
    before = write_result(tmp_path, "before", with_service(20.0))
    after = write_result(tmp_path, "after", with_service(24.0, seed=8))
    shown = inferometer("compare", before, after)
    assert "Differences are not judged. To judge them, set" in shown.stdout
    gated = inferometer("compare", before, after, "--fail-if-slower", "5%")
    assert gated.code == ExitCode.INCONCLUSIVE
    assert "measured too few times: 1 in A and 1 in B" in gated.stderr
    assert "Minimum detectable effect: unknown, since nothing is judged." in gated.stdout
    passed = inferometer(
        "compare", before, after, "--fail-if-slower", "5%", "--inconclusive", "pass"
    )
    assert passed.code == ExitCode.VALID


def test_an_invalid_result_exits_with_3(inferometer: Command, tmp_path: Path) -> None:
    """An INVALID scenario makes a gate exit with 3, and its last line says INVALID, too."""
    path = write_result(tmp_path, "invalid", a_result())
    completed = inferometer("compare", path, path, "--fail-if-slower", "5%")
    assert completed.code == ExitCode.INVALID
    assert "not shown: traffic is INVALID in A and B." in completed.stderr
    assert "\nINVALID: It is not shown whether B is more than 5 % worse" in completed.stdout


def test_results_without_a_scenario_in_common_are_refused(
    inferometer: Command, tmp_path: Path
) -> None:
    """Such results, malformed percentages and missing files are refused, with what to do."""
    one = write_result(tmp_path, "one", with_service(20.0))
    other = write_result(tmp_path, "other", a_result(scenarios=[]))
    completed = inferometer("compare", one, other)
    assert completed.code == ExitCode.REFUSED
    assert "no scenario in common" in completed.stderr
    assert inferometer("compare", one, one, "--fail-if-slower", "fast").code == ExitCode.REFUSED
    assert inferometer("compare", one, str(tmp_path / "none.json")).code == ExitCode.REFUSED


def with_drain(document: ResultDocument, milliseconds: int) -> ResultDocument:
    """Return a result of ten seconds whose last reply arrives after them."""

    def drained(step: Step) -> Step:
        seconds = step.windows[:10]
        last = seconds[-1].model_copy(update={"duration_milliseconds": 1000 + milliseconds})
        whole = {"duration_nanoseconds": 10_000_000_000, "windows": [*seconds[:-1], last]}
        return step.model_copy(update=whole)

    return with_steps(document, drained)


@pytest.mark.parametrize("milliseconds", [0, 6, 499])
def test_a_rate_of_ten_seconds_has_bounds_whatever_the_drain(milliseconds: int) -> None:
    """The drain is part of the last window, which still counts as one second."""
    result = with_drain(with_service(20.0), milliseconds)
    for each in measured(result.scenarios).values():
        (rate,) = [figure for figure in each.figures if figure.name == "queries/s"]
        assert rate.estimate is not None
        assert rate.estimate.low is not None


def ended(inferometer: Command, folder: Path, before: ResultDocument, after: ResultDocument) -> int:
    """Return the exit code of a comparison that allows 5 %."""
    paths = write_result(folder, "before", before), write_result(folder, "after", after)
    return inferometer("compare", *paths, "--fail-if-slower", "5%").code


def test_a_scatter_that_hides_a_regression_exits_with_5(
    inferometer: Command, tmp_path: Path
) -> None:
    """Three repeats that scatter by 20 % show no change of 5 %, in either direction."""
    scattered = repeats_of(with_service(20.0))
    factors = {1: 1.0, 2: 1.2, 3: 1.4}
    scenarios = [
        each.model_copy(
            update={"steps": [slower_step(step, factors[each.repeat]) for step in each.steps]}
        )
        for each in scattered.scenarios
    ]
    noisy = scattered.model_copy(update={"scenarios": scenarios})
    assert ended(inferometer, tmp_path, noisy, noisy) == ExitCode.INCONCLUSIVE


def test_an_invalid_scenario_is_no_regression(inferometer: Command, tmp_path: Path) -> None:
    """Its figures are not compared: the exit code is 3, not 4, and the reason is printed."""
    slow = with_service(24.0, seed=8)
    invalid = [
        each.model_copy(update={"verdict": Verdict(state="INVALID")}) for each in slow.scenarios
    ]
    after = slow.model_copy(update={"scenarios": invalid})
    assert ended(inferometer, tmp_path, with_service(20.0), after) == ExitCode.INVALID


def test_a_regression_outranks_an_invalid_scenario(inferometer: Command, tmp_path: Path) -> None:
    """What is shown to be slower exits with 4, although another scenario is INVALID."""

    def with_invalid(document: ResultDocument) -> ResultDocument:
        run = a_run([LATENCY, {"name": "again", "singleStream": {}}])
        again = document.scenarios[0].model_copy(
            update={"name": "again", "verdict": Verdict(state="INVALID")}
        )
        return document.model_copy(update={"run": run, "scenarios": [*document.scenarios, again]})

    before = with_invalid(repeats_of(with_service(20.0)))
    after = with_invalid(repeats_of(with_service(24.0)))
    assert ended(inferometer, tmp_path, before, after) == ExitCode.SLOWER
    assert ended(inferometer, tmp_path, before, before) == ExitCode.INVALID


def traffic(rate: str, milliseconds: float = 10.0) -> ResultDocument:
    """Return a VALID run of an open loop at this rate."""
    scenario = {"name": "traffic", "server": {"targetQps": rate}}
    load = Load(qps=float(rate), service_milliseconds=milliseconds)
    result = ScenarioResult(
        name="traffic",
        kind="server",
        seed=42,
        steps=[a_step(load)],
        verdict=Verdict(state="VALID"),
    )
    return a_result(run=a_run([scenario]), scenarios=[result])


def test_a_profile_scenario_makes_the_run_no_baseline() -> None:
    """By its kind, as for trends and models, although the profiler left no data."""
    document = repeats_of(with_service(20.0))
    layers = document.scenarios[0].model_copy(update={"name": "layers", "kind": "profile"})
    profiled = document.model_copy(update={"scenarios": [*document.scenarios, layers]})
    for before, after in ((document, profiled), (profiled, document)):
        (pair,) = compare(before, after).pairs
        assert pair.caveats == ("is of a run with a profile, which is no baseline.",)


def test_a_different_specification_is_no_regression(inferometer: Command, tmp_path: Path) -> None:
    """A lower target rate does not mean a slower server: it cannot be judged."""
    before, after = repeats_of(traffic("40")), repeats_of(traffic("30"))
    assert ended(inferometer, tmp_path, before, after) == ExitCode.INCONCLUSIVE
    assert words(before, after)["queries/s"] == "by schedule"
    slower = repeats_of(traffic("20", 20.0))
    assert ended(inferometer, tmp_path, repeats_of(traffic("20")), slower) == ExitCode.SLOWER


def test_interleaved_runs_of_different_scenarios_are_not_judged() -> None:
    """What holds for two results holds for rounds: another rate is another question."""

    def judged(before: ResultDocument, after: ResultDocument) -> dict[str, str]:
        (pair,) = compare_rounds([before] * 3, [after] * 3, is_gate=True).pairs
        return {each.name: each.word for each in pair.figures}

    assert judged(traffic("20"), traffic("40", 20.0))["p50"] == "not judged"
    assert judged(traffic("20"), traffic("20", 20.0))["p50"] == "worse"


def test_samples_are_compared_if_queries_have_several() -> None:
    """If every query has one sample, only queries are compared."""
    steps = {pair.before.step: pair for pair in compare(a_result(), a_result()).pairs}
    names = {label: [each.name for each in pair.figures] for label, pair in steps.items()}
    assert "samples/s" in names["batch 8"]
    assert "samples/s" not in names["batch 1"]


def test_a_name_means_a_file_or_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with .json or a slash is a file; a directory with the name of a run is not."""
    monkeypatch.chdir(tmp_path)
    Path("nightly").mkdir()
    Path("kept").touch()
    cluster = ClusterOptions(namespace="bench")
    assert is_file("before.json", cluster)
    assert is_file("./kept", cluster)
    assert not is_file("nightly", ClusterOptions())
    assert is_file("kept", ClusterOptions())
    assert not is_file("kept", cluster)


def spending(microjoules: int, attribution: Attribution, net: int | None = None) -> ResultDocument:
    """Return a run with this energy per inference."""
    energy = Energy(
        attribution=attribution,
        microjoules_per_inference=microjoules,
        net_microjoules_per_inference=net,
    )
    return with_steps(with_service(20.0), lambda step: step.model_copy(update={"energy": energy}))


def test_joules_with_different_attributions_are_not_compared(
    inferometer: Command, tmp_path: Path
) -> None:
    """Each has its attribution; there is no ratio of a node's energy to a pod's."""
    before, after = spending(279_000, "node", 100_000), spending(32_480, "shared", 30_000)
    found = {each.name: each for each in compare(before, after).pairs[0].figures}
    assert found["J/inference"].word == "scopes differ"
    assert found["J/inference"].ratio is None
    assert found["J/inference net"].word == "scopes differ"
    shown = inferometer(
        "compare", write_result(tmp_path, "a", before), write_result(tmp_path, "b", after)
    ).stdout
    assert "279.0 node" in shown
    assert "32.48 shared" in shown


def late_from_p99(document: ResultDocument) -> ResultDocument:
    """Return a document of an open loop whose client was late at the P99 and above."""

    def late(step: Step) -> Step:
        assert step.latency is not None
        values = [
            value.model_copy(
                update={"nanoseconds": value.nanoseconds if value.percentile >= 99 else 0}
            )
            for value in step.latency.percentiles
        ]
        lag = step.latency.model_copy(update={"percentiles": values})
        return step.model_copy(update={"dispatch_lag": lag})

    return with_steps(document, late)


def test_percentiles_at_which_the_client_was_late_fail_no_pipeline(
    inferometer: Command, tmp_path: Path
) -> None:
    """They are unknown, whatever their values, and the reason is printed."""
    before = repeats_of(with_service(20.0))
    after = late_from_p99(repeats_of(with_service(24.0, seed=8)))
    found = words(before, after)
    assert (found["p50"], found["p90"], found["p99"]) == ("worse", "worse", "unknown")
    shown = inferometer(
        "compare", write_result(tmp_path, "a", before), write_result(tmp_path, "b", after)
    ).stdout
    assert "p99 is unknown in B: the load generator was late" in shown
    assert "p90 is unknown" not in shown
    (doubt,) = [each for each in reasons(before, after) if ", p99:" in each]
    assert doubt.startswith("latency, p99: unknown in B: the load generator was late")
    quicker = late_from_p99(repeats_of(with_service(16.0, seed=8)))
    assert not any(", p99:" in each for each in reasons(before, quicker))


def test_a_late_client_in_the_first_result_hides_no_slower_server() -> None:
    """A's P99 is too high by an unknown amount, so B may be slower."""
    before = late_from_p99(repeats_of(with_service(24.0)))
    after = repeats_of(with_service(20.0, seed=8))
    (doubt,) = [each for each in reasons(before, after) if ", p99:" in each]
    assert doubt.startswith("latency, p99: unknown in A: the load generator was late")
    assert doubt.endswith("Give it a core of its own, and measure again.")


def test_a_missing_energy_is_explained(inferometer: Command, tmp_path: Path) -> None:
    """The reason is printed once, with the result that it applies to."""
    paths = (
        write_result(tmp_path, "a", with_service(20.0)),
        write_result(tmp_path, "b", spending(5, "node")),
    )
    shown = inferometer("compare", *paths).stdout
    assert shown.count("Energy is unavailable in A: this machine has no readable RAPL") == 1


def test_long_values_are_cut_to_where_they_differ(inferometer: Command, tmp_path: Path) -> None:
    """Of notes, each sentence that only one result has is shown in whole."""
    begin, end = "the same begin " * 8, " the same end" * 8
    first, second = shown_difference(f"{begin}one{end}", f"{begin}another{end}")
    assert first.startswith("...")
    assert "one" in first
    assert "another" in second
    assert max(len(first), len(second)) <= 80
    environment = an_environment()
    note = "The server shares its only core with the load generator, which takes it at each reply."
    noted = environment.model_copy(update={"notes": [*environment.notes, note]})
    paths = [
        write_result(tmp_path, name, with_service(20.0, environment=each))
        for name, each in (("a", environment), ("b", noted))
    ]
    shown = inferometer("compare", *paths).stdout
    assert f"Notes  note: none -> {note}" in shown
    assert environment.notes[0] not in shown
