"""The end table reads well in a terminal of 80 characters, and in a log."""

import io
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from rich.console import Console
from rich.text import Text

from inferometer_api.results.result import (
    Energy,
    Finding,
    ResultDocument,
    ScenarioResult,
    Step,
    Verdict,
)
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_cli.cluster.status_table import print_figures
from inferometer_cli.tables.comparison import print_comparison
from inferometer_cli.tables.result import print_table
from inferometer_cli.terminal import print_message
from inferometer_cli.text_table import Row, print_columns, print_rows, print_sentences
from inferometer_results.compare.comparison import compare
from inferometer_results.quantity import energy_unit
from support.any_results import any_results
from support.energies import Machine
from support.results import (
    a_metered_result,
    a_refused_result,
    a_result,
    a_valid_result,
    an_unfinished_result,
)

_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,.]*(?![\w%])")
"""A number as a word of its own."""


def _printed(document: ResultDocument, *, terminal: bool, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, no_color=True)
    print_table(document, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_log_gets_plain_lines() -> None:
    """Without a terminal there is no colour, no box, no wrapping: each sentence is a line."""
    printed = _printed(a_result(), terminal=False)
    assert "\x1b" not in printed
    lines = printed.splitlines()
    assert lines[0].split() == ["scenario", "queries", "qps", "samples/s"] + [
        word for percentile in (50, 90, 99, 99.9) for word in (f"p{percentile}", "ms")
    ] + ["errors"]
    assert [line.split()[0] for line in lines[1:4]] == ["VALID", "INVALID", "VALID"]
    assert "caution latency, traffic, throughput: Server and load generator shared" in printed
    assert all(not line.endswith(" ") for line in lines)


@pytest.mark.parametrize("terminal", [True, False])
def test_every_step_has_its_row(terminal: bool) -> None:  # noqa: FBT001 - a case of the test
    """A scenario with steps has one row for each, below its name."""
    document = a_result()
    lines = _printed(document, terminal=terminal).splitlines()
    for step in document.scenarios[2].steps:
        row = next(line.split() for line in lines if f" {step.label} " in line)
        assert str(step.counts.queries) in row
        assert row[-1] == "0"


def test_a_table_fits_in_80_characters() -> None:
    """On a terminal of 80 characters no line is longer and no figure is cut."""
    long_name = a_result()
    renamed = long_name.scenarios[1].model_copy(update={"name": "a-very-long-name-" * 3 + "x"})
    document = long_name.model_copy(update={"scenarios": [long_name.scenarios[0], renamed]})
    for each in (a_result(), document, a_metered_result()):
        printed = _printed(each, terminal=True)
        table = printed.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        assert max(len(line) for line in table.splitlines()) <= 80
        assert "…" not in table
        assert "a-very-long-name" not in printed or "208" in table


@pytest.mark.parametrize("width", [30, 45, 69, 70, 75, 80, 100, 200])
def test_no_figure_is_cut_at_any_width(width: int) -> None:
    """Whatever the terminal's width, every figure is printed whole, and no line is wider."""
    for document in (a_result(), a_metered_result()):
        plain = _printed(document, terminal=False).partition("\n\nINVALID")[0]
        printed = re.sub(r"\x1b\[\d*m", "", _printed(document, terminal=True, width=width))
        shown = Counter(_NUMBER.findall(printed))
        assert not Counter(_NUMBER.findall(plain)) - shown
        assert "…" not in printed
        assert max(map(len, printed.splitlines())) <= width


@pytest.mark.parametrize(("width", "is_table"), [(69, False), (80, True)])
def test_a_narrow_terminal_has_a_line_for_each_figure(width: int, is_table: bool) -> None:  # noqa: FBT001 - a case of the test
    """The common case is a table in 80 characters; below 70 each figure has a line."""
    printed = re.sub(r"\x1b\[\d*m", "", _printed(a_result(), terminal=True, width=width))
    lines = [line.split() for line in printed.splitlines()]
    step = a_result().scenarios[0].steps[0]
    row = ["VALID", "latency"] if not is_table else ["VALID", "latency", str(step.counts.queries)]
    assert [line[: len(row)] for line in lines if line[:2] == row[:2]] == [row]
    assert (["queries", str(step.counts.queries)] in lines) is not is_table


@pytest.mark.parametrize("width", [40, 69, 70, 80, 120])
def test_no_figure_of_a_comparison_is_cut(width: int) -> None:
    """Figures, bounds and changes of a comparison are whole at every width, in the line's width."""
    before, after = a_metered_result(), a_metered_result(Machine(share=0.2))
    comparison = compare(before, after)

    def printed(*, terminal: bool, width: int) -> str:
        console = Console(file=io.StringIO(), width=width, force_terminal=terminal, no_color=True)
        print_comparison(("a", before), ("b", after), comparison, console)
        file = console.file
        assert isinstance(file, io.StringIO)
        return re.sub(r"\x1b\[\d*m", "", file.getvalue())

    found = printed(terminal=True, width=width)
    wanted = Counter(_NUMBER.findall(printed(terminal=False, width=80)))
    assert not wanted - Counter(_NUMBER.findall(found))
    assert "…" not in found
    assert max(map(len, found.splitlines())) <= width


@pytest.mark.parametrize("width", [30, 60, 90, 200])
def test_a_list_that_does_not_fit_has_blocks(width: int) -> None:
    """No cell is cut or broken, each has its heading, and empty ones are left out."""
    lines = [
        ("NAME", "PARAMETERS", "INPUT", "NOTE"),
        ("classification/resnet50", "25.6 M", "FP32 batchx3x224x224", ""),
        ("text/gpt2", "124 M", "INT64 1x64", "short"),
    ]
    console = Console(file=io.StringIO(), width=width, force_terminal=True, no_color=True)
    print_columns(lines, console, text_columns=(0, 2, 3))
    file = console.file
    assert isinstance(file, io.StringIO)
    printed = file.getvalue().splitlines()
    assert max(map(len, printed)) <= width
    if width >= 90:
        assert printed[0] == f"{'NAME':23}  PARAMETERS  {'INPUT':20}  NOTE"
        assert printed[2] == f"{'text/gpt2':23}  {'124 M':>10}  {'INT64 1x64':20}  short"
        return
    parts = {30: 2, 60: 1}[width]
    first, cells = printed[0], "".join(printed[1 : 1 + parts])
    assert first == "classification/resnet50"
    assert cells == "  PARAMETERS 25.6 M  INPUT FP32 batchx3x224x224"
    assert "NOTE short" in printed[-1]


def test_a_message_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a name in it has; lines stay lines."""
    print_message("run \x1b]0;title\x07\x9b2J\nnext")
    assert capsys.readouterr().err == "run \ufffd]0;title\ufffd\ufffd2J\nnext\n"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [60, 200])
def test_a_name_neither_commands_the_terminal_nor_breaks_its_row(
    terminal: bool,  # noqa: FBT001 - a case of the test
    width: int,
) -> None:
    """A cell is one line of printable text, and brackets in it are no style."""
    name = "\x1b[31mred\x1b]0;title\x07\x9b[/b]\r\nnext\u2028"
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, no_color=True)
    print_columns([("MODEL", "P99"), (name, "1")], console)
    print_rows(("", "scenario", "tags"), [Row(name, name, (name,))], console)
    print_sentences([Text(f"{name} is INVALID.", "bold")], console)
    file = console.file
    assert isinstance(file, io.StringIO)
    printed = re.sub(r"\x1b\[[\d;]*m", "", file.getvalue()) if terminal else file.getvalue()
    assert all(each.isprintable() for each in printed.split("\n"))
    assert printed.count("[/b]") == 5
    *rows, _ = printed.split("\nnext")
    assert len(rows) == 1, "only a sentence has line breaks"


def test_a_heading_keeps_a_number_and_its_unit_together() -> None:
    """Headings are broken between words, as in "95 %" above "low", to keep columns narrow."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, no_color=True)
    print_rows(("", "scenario", "95 % low"), [Row("p50", "latency", ("3.4",))], console)
    file = console.file
    assert isinstance(file, io.StringIO)
    heading = re.sub(r"\x1b\[\d*m", "", file.getvalue()).splitlines()[:2]
    assert [line.split() for line in heading] == [["95", "%"], ["scenario", "low"]]


def test_reasons_are_printed_in_full() -> None:
    """Every reason and caution is printed as a whole sentence, below the verdict."""
    document = a_result()
    printed = _printed(document, terminal=False)
    assert "INVALID: 1 of 3 scenarios is invalid" in printed
    for result in document.scenarios:
        for finding in (*result.verdict.reasons, *result.verdict.cautions):
            assert f": {finding.message}\n" in printed


def test_a_rule_of_several_scenarios_is_printed_once() -> None:
    """The first finding is whole, the others are figures, and the how-to page follows."""

    def busy(result: ScenarioResult, cores: float, steps: list[str]) -> ScenarioResult:
        finding = Finding(
            rule="BusyMachine",
            message=f"Other processes used {cores} CPUs.",
            figure=f"{cores} of 2 CPUs",
            limit="0.2 CPUs",
            step=steps[0] if steps else "",
            steps=steps,
        )
        verdict = Verdict(state="INVALID", reasons=[finding])
        return result.model_copy(update={"verdict": verdict})

    document = a_result()
    found = [([], 1.1), ([], 1.3), (["batch 1", "batch 8"], 1.2)]
    scenarios = [
        busy(result, cores, steps)
        for result, (steps, cores) in zip(document.scenarios, found, strict=True)
    ]
    printed = _printed(document.model_copy(update={"scenarios": scenarios}), terminal=False)
    assert (
        "\nINVALID latency: Other processes used 1.1 CPUs. Also in traffic (1.3 of 2 CPUs), "
        "throughput in 2 steps (1.2 of 2 CPUs).\n"
        "What to do: inferometer explain BusyMachine\n"
    ) in printed
    assert printed.count("Other processes used") == 1


def test_a_valid_run_is_reported_as_valid() -> None:
    """A valid run ends with one sentence that says so."""
    assert _printed(a_valid_result(), terminal=False).endswith("VALID: The scenario is valid.\n")


def test_an_unfinished_run_states_how_it_ended() -> None:
    """An unfinished run shows what was measured, how it ended and the server's last output."""
    printed = _printed(an_unfinished_result("Failed"), terminal=False)
    assert "FAILED: The run failed before it was complete." in printed
    assert "2 of 3 scenarios" in printed
    assert "fatal segmentation fault in session.run" in printed


def test_a_refused_run_has_no_table() -> None:
    """If nothing was measured, there is no table but the sentence with the reason."""
    printed = _printed(a_refused_result(), terminal=False)
    assert printed.startswith("REFUSED: The run cannot be carried out. Nothing was measured.\n")
    assert "queries" not in printed


def test_energy_has_its_own_table() -> None:
    """Each step has gross and net joules per inference, watts and the attribution."""
    document = a_metered_result()
    printed = _printed(document, terminal=False)
    lines = printed.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("energy"))
    assert lines[at].split("  ")[-4:] == ["mJ/inf gross", "mJ/inf net", "mean W", "idle W"]
    steps = [step for result in document.scenarios for step in result.steps]
    for line, step in zip(lines[at + 1 :], steps, strict=False):
        word, *_, gross, net, mean, idle = line.split()
        assert word == "shared"
        assert step.label in line
        assert float(gross) == pytest.approx(_each(step.energy.microjoules, step), rel=0.01)
        assert float(net) == pytest.approx(_each(step.energy.net_microjoules, step), rel=0.01)
        joules = sum(domain.domain_microjoules for domain in step.energy.domains) / 1e6
        watts = joules / (step.energy.window_nanoseconds or 0) * 1e9
        assert float(mean) == pytest.approx(watts, rel=0.01)
        assert idle == "24.6"
    for word in ("shared", "net", "W"):
        assert len([line for line in lines if line.startswith(f"{word}: ")]) == 1


def _each(microjoules: int | None, step: Step) -> float:
    """Return millijoules per inference."""
    return (microjoules or 0) / 1000 / step.counts.samples


def test_without_energy_there_is_no_energy_table() -> None:
    """Without a figure there is no table; the reason is a caution."""
    assert "energy" not in _printed(a_result(), terminal=False)


def test_a_step_without_energy_shows_the_reason() -> None:
    """If one step lost its agent, its row says unavailable and a line has the reason."""
    document = a_metered_result()
    first = document.scenarios[0]
    lost = Energy(attribution="unavailable", reason="the agent of bench-01 does not answer")
    changed = first.model_copy(
        update={"steps": [first.steps[0].model_copy(update={"energy": lost})]}
    )
    scenarios = [changed, *document.scenarios[1:]]
    printed = _printed(document.model_copy(update={"scenarios": scenarios}), terminal=False)
    row = next(line.split() for line in printed.splitlines() if line.startswith("unavailable "))
    assert row[1:] == ["latency", *"\N{EN DASH}" * 4]
    assert "\nunavailable: the agent of bench-01 does not answer.\n" in printed


def test_energy_below_zero_is_explained() -> None:
    """A negative net figure is printed as it is, with its meaning."""
    document = a_metered_result()
    first = document.scenarios[0]
    step = first.steps[0]
    energy = step.energy.model_copy(update={"net_microjoules_per_inference": -4_200})
    changed = first.model_copy(update={"steps": [step.model_copy(update={"energy": energy})]})
    printed = _printed(document.model_copy(update={"scenarios": [changed]}), terminal=False)
    assert " -4.20 " in printed
    assert "a negative figure means that the load is lost in the noise of the idle power" in printed


def test_the_status_of_a_run_has_the_same_rows_of_energy() -> None:
    """`inferometer status` shows gross, net and attribution of each scenario, in 80 characters."""
    summaries = [scenario_summary(result) for result in a_metered_result().scenarios]
    for terminal in (True, False):
        console = Console(file=io.StringIO(), width=80, force_terminal=terminal, no_color=True)
        print_figures(summaries, Text("VALID"), console)
        file = console.file
        assert isinstance(file, io.StringIO)
        lines = re.sub(r"\x1b\[\d*m", "", file.getvalue()).splitlines()
        rows = [line.split() for line in lines if line.startswith("shared  ")]
        assert [row[1].rstrip(",") for row in rows] == ["latency", "traffic", "throughput"]
        first = summaries[0]
        assert rows[0][-2:] == [
            energy_unit([1e4]).text(first.microjoules_per_inference),
            energy_unit([1e4]).text(first.net_microjoules_per_inference),
        ]
        assert not any(word in file.getvalue() for word in ("mean", "idle W"))
        assert not terminal or max(map(len, lines)) <= 80


@given(any_results())
@settings(max_examples=30)
def test_any_document_prints_and_commands_no_terminal(document: ResultDocument) -> None:
    """Whatever a document holds, it prints, and its texts never reach the terminal as commands."""
    assert "\x1b[2J" not in _printed(document, terminal=True)
    assert "\x1b" not in _printed(document, terminal=False)
