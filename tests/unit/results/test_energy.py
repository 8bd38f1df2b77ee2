"""The report shows the energy of each step, what it covers, and why it is missing."""

from functools import cache

from inferometer_results.quantity import energy, percent, watts
from inferometer_results.report import render_report
from inferometer_results.report.energy_facts import HEADINGS, energy_of_steps
from support.energies import Machine, estimated
from support.report_pages import alone, text_of, titles
from support.results import a_metered_result, a_result

_metered = cache(a_metered_result)


def test_a_scenario_without_energy_is_named_where_others_have_it() -> None:
    """The reason why energy is unavailable names its scenario, unless it is that of all."""
    whole, bare = _metered(), a_result()
    mixed = whole.model_copy(update={"scenarios": [whole.scenarios[0], bare.scenarios[1]]})
    why = "is unavailable: this machine has no readable RAPL counter"
    assert f"Energy per inference of traffic {why}" in text_of(mixed)
    assert f"Energy per inference {why}" in text_of(bare)


def test_the_summary_has_gross_and_net_energy() -> None:
    """Joules per inference have their attribution, which is explained once."""
    document = _metered()
    spent = document.scenarios[0].steps[0].energy
    text = text_of(document)
    gross, net = spent.microjoules_per_inference, spent.net_microjoules_per_inference
    assert f"{energy(gross)} net {energy(net)} shared" in text
    assert text.count("The servers get a share of the counters' energy") == 0
    assert text.count("the servers get a share of the counters' energy, by CPU time") == 1
    assert text.count("gross energy minus the servers' share of the idle power") == 1
    assert "dedicated the servers get all energy" not in text


def test_energy_is_explained_if_there_is_any() -> None:
    """Only pages with energy explain how it was measured."""
    line = (
        "The energy counters of the servers' nodes are read at the start and the end of the window"
    )
    assert line in text_of(alone(_metered()))
    assert line not in text_of(alone(a_result()))


def test_each_counter_has_its_row() -> None:
    """A counter's row has its value and method, the servers' share, its power and idle power."""
    document = _metered(Machine(gpus=1))
    step = document.scenarios[0].steps[0]
    (line,) = energy_of_steps(document.scenarios[0])
    rows = [dict(zip(HEADINGS, row, strict=False)) for row in line.rows]
    assert [row["Counter"] for row in rows] == ["package-0", "package-0-dram", "gpu-0", "total"]
    first, domain = rows[0], step.energy.domains[0]
    assert first["Read as"] == "counter"
    assert first["Attribution"] == "shared"
    assert first["Share"] == percent(0.49) == "49.0 %"
    assert first["Idle power"] == "21.5 W"
    assert first["Energy"] == energy(domain.domain_microjoules)
    assert first["Servers' share"] == energy(domain.microjoules)
    assert rows[2]["Read as"] == "power over time"
    assert rows[2]["Share"] == "100 %"
    assert rows[3]["Per inference"] == energy(step.energy.microjoules_per_inference)
    assert all(len(row) == len(HEADINGS) for row in line.rows)


def test_power_is_energy_over_the_window() -> None:
    """A counter's mean power is its energy over the time between its two readings."""
    scenario = _metered().scenarios[0]
    step = scenario.steps[0]
    (line,) = energy_of_steps(scenario)
    joules = step.energy.domains[0].domain_microjoules / 1e6
    seconds = (step.energy.window_nanoseconds or 0) / 1e9
    assert line.rows[0][4] == watts(1000 * joules / seconds)


def test_an_estimate_is_marked() -> None:
    """An estimate is marked as `estimated`, with its meaning, and has no net."""
    document = a_result()
    scenario = document.scenarios[0]
    steps = [estimated(step, Machine()) for step in scenario.steps]
    changed = scenario.model_copy(update={"steps": steps})
    text = text_of(document.model_copy(update={"scenarios": [changed]}))
    assert "estimated the servers' CPU time multiplied by a power from the spec" in text
    assert "cpu estimate estimated 100 %" in text
    assert "net gross energy minus" not in text


def test_missing_counters_are_named() -> None:
    """A counter that the figure does not cover is named below the table."""
    document = alone(_metered())
    step = document.scenarios[0].steps[0]
    spent = step.energy.model_copy(update={"not_covered": ["gpu-0 of bench-01 has no counter"]})
    changed = step.model_copy(update={"energy": spent})
    scenario = document.scenarios[0].model_copy(update={"steps": [changed]})
    text = text_of(document.model_copy(update={"scenarios": [scenario]}))
    assert "Not covered: gpu-0 of bench-01 has no counter." in text


def test_energy_by_batch_size_is_drawn() -> None:
    """If several steps have energy, a chart shows it gross and net by step."""
    html = render_report(alone(_metered(), 2))
    assert "Energy per inference by batch size" in titles(html)
    assert "Energy per inference by batch size" not in titles(render_report(alone(a_result(), 2)))
