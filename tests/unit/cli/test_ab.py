"""Two variants are measured in turn, what is measured stays, and the paired runs are judged."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from inferometer_api.results.result import Finding, Outcome, ResultDocument, ScenarioResult, Verdict
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import ExitCode
from inferometer_cli.local import measurement
from support.command import Command
from support.results import a_result, an_environment
from support.steps import Load, a_step

_RUN = """
apiVersion: inferometer.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: mnist}
spec:
  model: {uri: "zoo://classification/mnist"}
  scenarios: [{name: latency, singleStream: {}}]
"""
_ROUNDS = 4


class Machine:
    """Takes the place of measurements: a server takes 20 ms for each of its threads."""

    def __init__(self) -> None:
        self.measured: list[int] = []
        """The threads of the server in each measurement."""
        self.stops_at: int | None = None
        self.invalid: set[int] = set()
        self.scatter = 0.0
        """The logarithmic scatter of the service times."""
        self.governors: dict[int, str] = {}
        self.notes: dict[int, str] = {}
        """The governor and a note of single measurements."""

    def measure(self, run: BenchmarkRun, *_: Any, **__: Any) -> ResultDocument:
        """Return the result of a run."""
        number = len(self.measured)
        if number == self.stops_at:
            ended = Outcome(state="Interrupted", reason="Interrupted", message="Interrupted.")
            return a_result(run=run, scenarios=[], outcome=ended)
        threads = run.spec.server.threads or 1
        self.measured.append(threads)
        milliseconds = 20.0 * threads * (1 + self.scatter * (number * 7 % 5 - 2))
        load = Load(service_milliseconds=milliseconds + number % 3 / 100, seed=number)
        verdict = Verdict(state="VALID")
        if number in self.invalid:
            busy = Finding(rule="BusyMachine", message="It was busy.", figure="1", limit="0")
            verdict = Verdict(state="INVALID", reasons=[busy])
        scenario = ScenarioResult(
            name="latency", kind="singleStream", seed=42, steps=[a_step(load)], verdict=verdict
        )
        environment = an_environment()
        node = environment.node.model_copy(
            update={"cpu_governor": self.governors.get(number, "performance")}
        )
        notes = [self.notes[number]] if number in self.notes else []
        found = environment.model_copy(update={"node": node, "notes": notes})
        return a_result(run=run, scenarios=[scenario], environment=found)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine that measures at once."""
    made = Machine()
    monkeypatch.setattr(measurement, "measure", made.measure)
    return made


@pytest.fixture
def inferometer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Return what runs a command line in this process, with a database of its own."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("INFEROMETER_DATABASE", str(tmp_path / "results.db"))
    return Command(monkeypatch, capsys)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return a command line that compares one thread with a number that is to be added."""
    file = tmp_path / "run.yaml"
    file.write_text(_RUN)
    options = ["--rounds", str(_ROUNDS), "--output", str(tmp_path / "out")]
    return ["ab", str(file), str(file), *options, "--set", "spec.server.threads=1"]


def test_the_variants_take_turns(inferometer: Command, words: list[str], machine: Machine) -> None:
    """A B, B A, A B, B A; a slower B exits with 4 and is named."""
    ended = inferometer(*words, "--set-b", "spec.server.threads=2")
    assert machine.measured == [1, 2, 2, 1, 1, 2, 2, 1]
    assert ended.code == ExitCode.SLOWER
    assert "slower: latency, p50 +100." in ended.stderr
    assert "server.threads: 1 -> 2" in ended.stdout
    assert "FAIL: B is more than 3 % worse than A." in ended.stdout
    assert re.search("round 4/4, A, about .+ left", ended.stderr)
    assert "about 0 min left" not in ended.stderr
    assert "round 4/4, A: VALID" in ended.stderr
    assert "latency  A VALID, B VALID, 4 rounds count" in ended.stdout


def test_variants_without_a_common_scenario_are_refused_before_anything_is_measured(
    inferometer: Command, words: list[str], machine: Machine, tmp_path: Path
) -> None:
    """There would be nothing to compare after all the time."""
    other = Path(words[1]).read_text().replace("name: latency", "name: other")
    (tmp_path / "other.yaml").write_text(other)
    completed = inferometer("ab", words[1], str(tmp_path / "other.yaml"))
    assert completed.code == 2
    assert "A and B have no scenario in common (latency; other)" in completed.stderr
    assert machine.measured == []


def test_scenarios_that_differ_are_refused_or_not_judged(
    inferometer: Command, words: list[str], machine: Machine, tmp_path: Path
) -> None:
    """Figures of different loads say nothing about the server; what is the same is still judged."""
    rate = "{name: traffic, server: {targetQps: 20}}"
    file = tmp_path / "traffic.yaml"
    file.write_text(_RUN.replace("{name: latency, singleStream: {}}", rate))
    faster = ("--set-b", "spec.scenarios[traffic].server.targetQps=40")
    refused = inferometer("ab", str(file), str(file), *faster)
    assert refused.code == ExitCode.REFUSED
    assert "traffic: no scenario is the same in A and B" in refused.stderr
    assert machine.measured == []
    both = _RUN.replace("scenarios: [", f"scenarios: [{rate}, ")
    Path(words[1]).write_text(both)
    ended = inferometer(*words, *faster)
    assert "note: traffic differs between A and B, so it will not be judged." in ended.stderr
    assert "scenarios[traffic].server.targetQps: 20 -> 40" in ended.stdout
    assert len(machine.measured) == 2 * _ROUNDS


def test_what_changed_on_the_way_is_listed_with_its_rounds(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """The first round alone does not describe a series of hours."""
    machine.governors = {5: "powersave", 6: "powersave", 7: "powersave"}
    machine.notes = {number: f"Busy at {number}." for number in range(1, 8)}
    ended = inferometer(*words)
    lines = [line.strip() for line in ended.stdout.splitlines()]
    a, b = "performance (rounds 1-3), powersave (round 4)", "performance (rounds 1-2), powersave"
    assert f"Machine  cpuGovernor: {a} -> {b} (rounds 3-4)" in lines
    assert "Notes  Busy at 1: none -> round 1" in lines
    assert "Notes  Busy at 3: round 2 -> none" in lines
    assert "2 more notes are in the results (environment.notes)." in lines
    assert not any(line.startswith("Spec") for line in lines)


def test_an_unfinished_result_is_measured_again(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """Only whole runs count as measured."""
    inferometer(*words)
    file = Path(words[words.index("--output") + 1]) / "002-A" / "result.json"
    document = ResultDocument.model_validate_json(file.read_text())
    died = Outcome(state="Failed", reason="ServerDied", message="The server died.")
    file.write_text(document.model_copy(update={"outcome": died}).model_dump_json(by_alias=True))
    assert inferometer(*words).code == ExitCode.VALID
    assert len(machine.measured) == 2 * _ROUNDS + 1


def test_equal_variants_pass(inferometer: Command, words: list[str], machine: Machine) -> None:
    """They are equal within the margin, and the smallest visible change is printed."""
    ended = inferometer(*words)
    assert ended.code == ExitCode.VALID
    assert "PASS: B is no more than 3 % worse than A." in ended.stdout
    assert "Minimum detectable effect: " in ended.stdout
    assert len(machine.measured) == 2 * _ROUNDS


def test_an_interrupted_series_goes_on_where_it_ended(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """What was measured is kept, and the message says how to continue."""
    machine.stops_at = 3
    stopped = inferometer(*words)
    assert stopped.code == ExitCode.INTERRUPTED
    assert "3 of 8 runs are measured" in stopped.stderr
    assert f"--output {words[words.index('--output') + 1]}" in stopped.stderr
    machine.stops_at = None
    assert inferometer(*words).code == ExitCode.VALID
    assert len(machine.measured) == 2 * _ROUNDS


@pytest.mark.parametrize(("rounds", "limit"), [("2", "3 is the least"), ("201", "200 is the most")])
def test_too_few_and_too_many_rounds_are_refused_with_the_reason(
    inferometer: Command, words: list[str], machine: Machine, rounds: str, limit: str
) -> None:
    """The sentence names the option, the limit, and why."""
    ended = inferometer(*words, "--rounds", rounds)
    assert ended.code == ExitCode.REFUSED
    assert f"--rounds is {rounds}, and {limit}" in ended.stderr
    assert machine.measured == []


def test_every_run_is_in_the_database_unless_the_user_declines(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """`results list` shows the runs of both variants."""
    inferometer(*words, "--no-save")
    assert "No results." in inferometer("results", "list").stderr
    words[words.index("--output") + 1] += "-again"
    inferometer(*words)
    listed = inferometer("results", "list").stdout.splitlines()
    assert len(listed) == 1 + len(machine.measured) // 2


def test_results_of_another_variant_are_refused(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """They would be taken for those of this one."""
    inferometer(*words)
    ended = inferometer(*words, "--set-b", "spec.server.threads=2")
    assert ended.code == ExitCode.REFUSED
    assert "is a result of another specification than B's" in ended.stderr
    assert len(machine.measured) == 2 * _ROUNDS


def test_a_round_with_an_invalid_run_does_not_count(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """Three rounds are left, which are judged; with two, the comparison is INVALID."""
    machine.invalid = {2}
    ended = inferometer(*words)
    assert ended.code == ExitCode.VALID
    why = "(latency: BusyMachine)"
    assert f"round 2/4, B: INVALID {why}; the round does not count" in ended.stderr
    assert "/*-B: mnist, 4 rounds, measured " in ended.stdout
    assert f"INVALID in 1 of 4 rounds: 2 {why}." in ended.stdout
    assert "latency  A VALID, B VALID, 3 rounds count" in ended.stdout
    machine.measured.clear()
    machine.invalid = {2, 4}
    words[words.index("--output") + 1] += "-again"
    ended = inferometer(*words)
    assert ended.code == ExitCode.INVALID
    assert "not shown: latency is INVALID in A and B." in ended.stderr
    assert "latency  A INVALID, B INVALID, too few rounds are VALID in both" in ended.stdout


def test_an_inconclusive_series_is_continued_to_a_second_look(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """Up to twice the rounds; the plan says so before, and the looks are recorded."""
    machine.scatter = 0.05
    ended = inferometer(*words)
    assert len(machine.measured) == 4 * _ROUNDS
    assert "planned duration: about " in ended.stderr
    assert " for 8 rounds if they are inconclusive" in ended.stderr
    assert "Inconclusive after 4 rounds: measuring up to 8, for a second look." in ended.stderr
    assert "round 8/8, A: VALID" in ended.stderr
    assert "/*-B: mnist, 8 rounds, measured " in ended.stdout
    assert looks_of(words) == [4, 8]
    assert ended.code == ExitCode.INCONCLUSIVE
    assert f"repeat the command with --output {output_of(words)} and more --rounds" in ended.stderr


def test_a_series_that_is_decided_is_not_continued(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """A slower B and an equal one are known after the planned rounds."""
    assert inferometer(*words).code == ExitCode.VALID
    assert len(machine.measured) == 2 * _ROUNDS
    words[words.index("--output") + 1] += "-slower"
    assert inferometer(*words, "--set-b", "spec.server.threads=2").code == ExitCode.SLOWER
    assert len(machine.measured) == 4 * _ROUNDS


def test_one_look_is_enough_if_the_user_says_so(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """With --most-rounds equal to --rounds nothing more is measured."""
    machine.scatter = 0.05
    ended = inferometer(*words, "--most-rounds", str(_ROUNDS))
    assert ended.code == ExitCode.INCONCLUSIVE
    assert len(machine.measured) == 2 * _ROUNDS
    assert "for 8 rounds" not in ended.stderr


def test_runs_that_scatter_too_much_show_no_absurd_change(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """A smallest change beyond 100 %, and a bound beyond a factor of 100, is not printed."""
    machine.scatter = 0.45
    words[words.index("--rounds") + 1] = "3"
    ended = inferometer(*words, "--most-rounds", "3")
    assert ended.code == ExitCode.INCONCLUSIVE
    assert "p50: these runs scatter too much to show any change up to 100 %." in ended.stderr
    assert "(<x0.01 to >x100)" in ended.stdout
    assert "these runs show only changes" not in ended.stderr


def test_rounds_added_by_hand_are_one_more_look(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """The same judgement is stricter after earlier looks, and repeating one is no new look."""
    machine.scatter = 0.05
    inferometer(*words)
    again = inferometer(*words)
    assert looks_of(words) == [4, 8]
    assert "its bounds (99.992 %)" in again.stdout
    words[words.index("--rounds") + 1] = "9"
    more = inferometer(*words, "--most-rounds", "9")
    assert looks_of(words) == [4, 8, 9]
    assert "its bounds (99.999 %)" in more.stdout
    assert len(machine.measured) == 18


def test_fewer_rounds_than_planned_are_refused_as_the_most(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """The sentence says how to ask for one look."""
    ended = inferometer(*words, "--most-rounds", "3")
    assert ended.code == ExitCode.REFUSED
    assert "--most-rounds is 3, less than --rounds (4)" in ended.stderr
    assert machine.measured == []


def test_a_damaged_record_of_the_looks_is_refused(
    inferometer: Command, words: list[str], machine: Machine
) -> None:
    """Without it the judgement could be too easy."""
    inferometer(*words)
    (output_of(words) / "looks.json").write_text("{}")
    ended = inferometer(*words)
    assert ended.code == ExitCode.REFUSED
    assert "looks.json is damaged" in ended.stderr


def output_of(words: list[str]) -> Path:
    """Return the directory of the results."""
    return Path(words[words.index("--output") + 1])


def looks_of(words: list[str]) -> list[int]:
    """Return the numbers of rounds at which the series was judged."""
    found: list[int] = json.loads((output_of(words) / "looks.json").read_text())["rounds"]
    return found
