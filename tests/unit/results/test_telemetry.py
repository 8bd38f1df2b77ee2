"""The report shows power and what the nodes did, and says why where it does not."""

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from inferometer_api.results.result import NodeSample, NodeTelemetry, ScenarioResult
from inferometer_results.report import render_report
from inferometer_results.report.chart import Band, Line
from inferometer_results.report.frame import Margins
from inferometer_results.report.gpu_charts import held_down_chart, utilization_chart
from inferometer_results.report.node_charts import (
    frequency_chart,
    same_scale,
    temperature_chart,
    waiting_chart,
)
from inferometer_results.report.power_charts import counter_word, power_chart
from inferometer_results.report.timeline import MOST_POINTS, of_node
from support.energies import Machine, metered
from support.report_pages import alone, text_of, titles
from support.results import a_long_result, a_metered_result, a_result

_long, _metered = cache(a_long_result), cache(a_metered_result)
_HOT = Machine(throttles=True)
_GPUS = Machine(name="gpu-a", cpus=64, packages=2, gpus=8, throttles=True)


def _with_samples(samples: list[NodeSample]) -> ScenarioResult:
    scenario = _metered().scenarios[0]
    telemetry = [NodeTelemetry(node="bench-01", samples=samples)]
    steps = [scenario.steps[0].model_copy(update={"telemetry": telemetry})]
    return scenario.model_copy(update={"steps": steps})


def test_one_node_shares_the_panel_of_the_load() -> None:
    """All charts over time are in one panel, those of the node after those of the load."""
    found = titles(render_report(alone(_metered(_HOT))))
    assert found == [
        "Latency distribution",
        "Latency by percentile",
        "Latency over time",
        "Achieved rate",
        "CPU",
        "Memory",
        "Power",
        "Servers waiting for CPU",
        "CPU clock",
        "CPU temperature",
    ]


def test_gpus_have_charts() -> None:
    """Utilisation, clock, throttling and memory of GPUs are drawn if there are GPUs."""
    found = titles(render_report(alone(_metered(_GPUS))))
    assert found[-4:] == ["GPU utilisation", "GPU clock", "GPU clocks held down", "GPU memory"]


def test_several_nodes_are_small_multiples() -> None:
    """Each figure stands node by node under one heading, all nodes on the same scale."""
    calm = Machine(name="node-b", share=0.9)
    html = render_report(alone(_metered(Machine(name="node-a", packages=2), calm)))
    headings = re.findall(r"<h4>(.*? by node)</h4>", html)
    assert headings[:3] == ["CPU by node", "Memory by node", "Power by node"]
    panel = html.partition("<h4>Power by node</h4>")[2].partition("</div>")[0]
    assert titles(panel) == ["node-a", "node-b"]
    ticks = [re.findall(r'tick end"[^>]*>([^<]*)', each) for each in panel.split("<figure>")[1:]]
    assert ticks[0] == ticks[1]
    assert int(ticks[0][-1]) >= 100, "node-b alone would need half of it"


def test_layers_of_power_add_up() -> None:
    """The stack's upper edge is the node's power, its layers stand on each other without a gap."""
    scenario = _metered(Machine(gpus=2)).scenarios[0]
    timeline = of_node(scenario, "bench-01")
    chart = power_chart(timeline, scenario, "bench-01")
    assert chart is not None
    bands = [mark for mark in chart.marks if isinstance(mark, Band)]
    assert [band.name for band in bands] == ["GPU 1", "GPU 0", "DRAM", "CPU"]
    for upper, lower in pairwise(bands):
        np.testing.assert_allclose(upper.low, lower.high)
    total = [sum(s.watts.values()) or np.nan for m in timeline.moments for s in m.node]
    np.testing.assert_allclose(bands[0].high, total)


def test_idle_power_is_a_line_for_each_step() -> None:
    """Idle power is a level line over its step, and in the chart's description."""
    scenario = _metered().scenarios[2]
    chart = power_chart(of_node(scenario, "bench-01"), scenario, "bench-01")
    assert chart is not None
    (idle,) = (mark for mark in chart.marks if isinstance(mark, Line) and mark.name == "idle")
    assert idle.dashed
    np.testing.assert_allclose(idle.y[np.isfinite(idle.y)], 24.6)
    assert np.isnan(idle.y).sum() == len(scenario.steps)
    assert chart.summary.endswith("24.6 W idle.")


def test_many_counters_are_drawn_by_kind() -> None:
    """Past four counters each layer is a kind: CPUs, DRAM, GPUs."""
    scenario = _metered(_GPUS).scenarios[0]
    chart = power_chart(of_node(scenario, "gpu-a"), scenario, "gpu-a")
    assert chart is not None
    names = [mark.name for mark in chart.marks if isinstance(mark, Band)]
    assert names == ["GPUs", "DRAM", "CPUs"]


@pytest.mark.parametrize(
    ("domain", "domains", "word"),
    [
        ("package-0", ["package-0", "package-0-dram"], "CPU"),
        ("package-0", ["package-0", "package-1"], "CPU 0"),
        ("package-1-dram", ["package-0-dram", "package-1-dram"], "DRAM 1"),
        ("gpu-3", ["gpu-3"], "GPU"),
        ("psys", ["psys"], "psys"),
    ],
)
def test_a_counter_has_a_word(domain: str, domains: list[str], word: str) -> None:
    """A counter is called by its kind, with its number where there are several."""
    assert counter_word(domain, domains) == word


def test_many_gpus_are_grey_with_a_mean() -> None:
    """With more than five GPUs each is a grey line, and their mean is labelled."""
    scenario = _metered(_GPUS).scenarios[0]
    chart = utilization_chart(of_node(scenario, "gpu-a"), scenario, "gpu-a")
    assert chart is not None
    lines = [mark for mark in chart.marks if isinstance(mark, Line)]
    assert [line.series for line in lines] == [0] * 8 + [1]
    np.testing.assert_allclose(lines[-1].y, np.mean([line.y for line in lines[:8]], axis=0))


def test_reasons_that_hold_clocks_down_have_lanes() -> None:
    """Each reason has a lane that says which GPUs it held, and when; without any, no chart."""
    scenario = _metered(_GPUS).scenarios[0]
    chart = held_down_chart(of_node(scenario, "gpu-a"), scenario, "gpu-a")
    assert chart is not None
    assert chart.summary == "Held down at times by power cap, heat (driver)."
    calm = _metered(Machine(gpus=1)).scenarios[0]
    assert held_down_chart(of_node(calm, "bench-01"), calm, "bench-01") is None


def test_nothing_is_drawn_of_servers_that_never_waited() -> None:
    """Servers that never waited for CPU have no chart of it, for it would be empty."""
    samples = [NodeSample(at_milliseconds=n * 1000, server_throttled_cores=0.0) for n in range(3)]
    scenario = _with_samples(samples)
    assert waiting_chart(of_node(scenario, "bench-01"), scenario, "bench-01") is None


def test_what_never_held_the_servers_back_is_listed() -> None:
    """If the CPU limit and the GPU were watched and never throttled, the page says so."""
    calm, hot = (text_of(alone(_metered(Machine(gpus=1, throttles=hot)))) for hot in (False, True))
    for sentence in (
        "No server was ever throttled by its CPU limit.",
        "No GPU ever reported that its clock was held down.",
    ):
        assert sentence in calm
        assert sentence not in hot


def test_little_waiting_does_not_look_large() -> None:
    """The axis of waiting reaches a tenth of a second per second at least."""
    scenario = _with_samples([NodeSample(at_milliseconds=0, server_cpu_pressure=0.002)] * 3)
    chart = waiting_chart(of_node(scenario, "bench-01"), scenario, "bench-01")
    assert chart is not None
    assert chart.y.high == pytest.approx(0.1)


def test_the_axis_holds_only_the_measurement() -> None:
    """Idle samples are not on the axis, nor one that comes at once after another."""
    times = (-5000, -1000, 0, 1000, 2000, 2004)
    samples = [NodeSample(at_milliseconds=at, cpu_cores=1.0) for at in times]
    moments = of_node(_with_samples(samples), "bench-01").moments
    assert [moment.at_milliseconds for moment in moments] == [0, 1000, 2000]


def test_long_series_keep_their_mean() -> None:
    """Of 600 samples neighbours are joined, so that the mean stays and the page small."""
    step = metered(_long().scenarios[0].steps[0], _HOT)
    scenario = _long().scenarios[0].model_copy(update={"steps": [step]})
    timeline = of_node(scenario, "bench-01")
    assert len(timeline.moments) <= MOST_POINTS
    drawn = timeline.of_node(lambda sample: sample.cpu_frequency_hertz)
    frequencies = [sample.cpu_frequency_hertz or 0 for sample in step.telemetry[0].samples]
    assert np.mean(drawn) == pytest.approx(np.mean(frequencies), rel=0.01)


def test_a_page_with_every_figure_stays_small() -> None:
    """Ten minutes on two nodes with eight GPUs each are less than 1.5 MB."""
    long = _long()
    machines = (_GPUS, Machine(name="gpu-b", cpus=64, packages=2, gpus=8))
    step = metered(long.scenarios[0].steps[0], *machines)
    scenario = long.scenarios[0].model_copy(update={"steps": [step]})
    html = render_report(long.model_copy(update={"scenarios": [scenario]}))
    assert len(html.encode()) < 1_500_000


def test_charts_over_time_are_aligned() -> None:
    """In all charts over time of a scenario the same moment lies at the same place."""
    html = render_report(alone(_metered(_GPUS)))
    linked = re.findall(r'<svg class="chart"[^>]*data-linked.*?</svg>', html, re.DOTALL)
    assert len(linked) == 12
    bases = {re.findall(r'class="base" d="(M[\d.]+),[\d.]+(L[\d.]+)', svg)[0] for svg in linked}
    assert len(bases) == 1


def test_margins_hold_every_chart() -> None:
    """Shared margins are the widest of all; no chart, no margins."""
    scenario = _metered().scenarios[0]
    timeline = of_node(scenario, "bench-01")
    kinds = (frequency_chart, temperature_chart)
    charts = [chart for kind in kinds if (chart := kind(timeline, scenario, "bench-01"))]
    shared = Margins.shared(charts)
    assert shared is not None
    assert shared.left == max(Margins.of(chart).left for chart in charts)
    assert shared.right == max(Margins.of(chart).right for chart in charts)
    assert Margins.shared([]) is None


def test_figures_of_different_units_keep_their_scales() -> None:
    """Charts with different axes do not share a scale."""
    scenario = _metered().scenarios[0]
    timeline = of_node(scenario, "bench-01")
    kinds = (frequency_chart, temperature_chart)
    charts = [chart for kind in kinds if (chart := kind(timeline, scenario, "bench-01"))]
    assert same_scale(charts) == charts


def test_what_an_agent_could_not_read_is_explained() -> None:
    """A node without sensors has no such charts, but a sentence, and the reason once."""
    reason = "rapl: the kernel offers no energy counters"
    bare = _with_samples([NodeSample(at_milliseconds=n * 1000, cpu_cores=1.0) for n in range(9)])
    telemetry = bare.steps[0].telemetry[0].model_copy(update={"missing": [reason]})
    step = bare.steps[0].model_copy(update={"telemetry": [telemetry]})
    document = a_result(scenarios=[bare.model_copy(update={"steps": [step]})])
    text = text_of(document)
    assert (
        "No charts for bench-01, because its agent did not report: power, CPU clock, "
        "CPU temperature."
    ) in text
    assert text.count(reason) == 1
    assert "Power" not in titles(render_report(document))


def test_without_an_agent_the_page_shows_the_reason() -> None:
    """If no agent reported, one sentence of each scenario says so, with the reason."""
    text = text_of(alone(a_result()))
    why = "this machine has no readable RAPL counter and no GPU"
    assert f"No charts of the servers' nodes: no agent reported ({why})." in text
    assert "The servers' nodes As reported by the node agents" not in text
