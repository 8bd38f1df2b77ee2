"""Charts of a node's power over time, by counter, against its idle power."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from inferometer_api.results.result import NodeSample, ScenarioResult, Step
from inferometer_results.quantity import significant
from inferometer_results.report.axis import Floats, linear_axis
from inferometer_results.report.chart import Band, Chart, Line, Mark
from inferometer_results.report.timeline import Timeline, Words, words_of

_KINDS = {"CPU": 1, "DRAM": 3, "GPU": 2}
"""The series of each kind of counter, from the bottom of the stack."""
_MOST_LAYERS = 4
_PLURALS = {"CPU": "CPUs", "DRAM": "DRAM", "GPU": "GPUs"}
_NUMBERED = re.compile(r"(package|gpu)-(\d+)(-dram)?")


def power_chart(timeline: Timeline, result: ScenarioResult, node: str) -> Chart | None:
    """Return the power of a node's counters, one above the other, with the idle power as a line."""
    found = {name for moment in timeline.moments for s in moment.node for name in s.watts}
    domains = sorted(found, key=_order)
    groups = _groups(domains)
    layers = [(name, *_layer(timeline, members)) for name, members in groups]
    drawn = [(name, watts) for name, watts, known in layers if known]
    if not drawn:
        return None
    total = _sum([watts for _, watts in drawn])
    marks: list[Mark] = [*_stack(timeline, drawn)]
    if len(drawn) > 1:
        words = words_of("all", total, _watts)
        marks.insert(0, Line(timeline.x, total, 0, "", words, unseen=True))
    idle = _idle(timeline, result, node)
    caption = "Power by counter, stacked; each point is the mean since the previous one."
    if idle is not None:
        marks.append(idle)
        caption += " The dashed line is the idle power: before warm-up, servers ready, no load."
    heights = np.concatenate([total, idle.y if idle is not None else np.array([])])
    axis = linear_axis("Power (W)", heights.tolist())
    chart = timeline.chart(Words("power", "Power", caption), axis, marks)
    return replace(chart, summary=_summary(total, idle))


def counter_word(domain: str, domains: Sequence[str]) -> str:
    """Return a counter's display name: "package-0-dram" is "DRAM" if it is the only one."""
    kind, number = _kind(domain)
    alone = [_kind(each)[0] for each in domains].count(kind) == 1
    return kind if alone or not number else f"{kind} {number}"


def _kind(domain: str) -> tuple[str, str]:
    found = _NUMBERED.fullmatch(domain)
    if found is None:
        return domain, ""
    kind = "DRAM" if found[3] else {"package": "CPU", "gpu": "GPU"}[found[1]]
    return kind, found[2]


def _order(domain: str) -> tuple[int, str, int]:
    """Order CPUs, then memory, then GPUs, then other names; gpu-10 after gpu-2."""
    kind, number = _kind(domain)
    return list(_KINDS).index(kind) if kind in _KINDS else len(_KINDS), kind, int(number or 0)


def _groups(domains: list[str]) -> list[tuple[str, list[str]]]:
    """Return the layers: one for each counter, or for each kind if there are many counters."""
    named = [(counter_word(each, domains), each) for each in domains]
    if len(named) <= _MOST_LAYERS:
        return [(name, [each]) for name, each in named]
    kinds: dict[str, list[str]] = {}
    for _, each in named:
        kinds.setdefault(_PLURALS.get(_kind(each)[0], "other"), []).append(each)
    return list(kinds.items())


def _layer(timeline: Timeline, members: list[str]) -> tuple[Floats, bool]:
    watts = _sum([timeline.of_node(_watts_of(name)) for name in members])
    return watts, bool(np.isfinite(watts).any())


def _watts_of(name: str) -> Callable[[NodeSample], float | None]:
    return lambda sample: sample.watts.get(name)


def _sum(parts: list[Floats]) -> Floats:
    """Return the sum of the known values: a gap in one counter hides no other."""
    stacked = np.stack(parts)
    known = np.isfinite(stacked).any(axis=0)
    return np.where(known, np.nansum(stacked, axis=0), np.nan)


def _stack(timeline: Timeline, layers: list[tuple[str, Floats]]) -> list[Band]:
    """Return the layers, the uppermost first, in the order of the values at the pointer."""
    series = _series([name for name, _ in layers])
    bands: list[Band] = []
    low = np.where(np.isfinite(_sum([watts for _, watts in layers])), 0.0, np.nan)
    for (name, watts), colour in zip(layers, series, strict=True):
        high = low + np.nan_to_num(watts)
        words = words_of(name, watts, _watts)
        bands.append(Band(timeline.x, low, high, colour, name, words))
        low = high
    return bands[::-1]


def _series(names: list[str]) -> list[int]:
    """Return a colour for each layer: that of its kind, or the next that is free."""
    taken: list[int] = []
    for name in names:
        wished = [series for kind, series in _KINDS.items() if kind in name]
        taken.append(next(n for n in (*wished, 4, 5, 1, 2, 3) if n not in taken))
    return taken


def _idle(timeline: Timeline, result: ScenarioResult, node: str) -> Line | None:
    """Return the idle power of each step as a level line; None if no step knows it."""
    x: list[float] = []
    y: list[float] = []
    for (start, end), step in zip(timeline.steps(), result.steps, strict=True):
        watts = _idle_watts(step, node)
        x += [start, end, end]
        y += [watts, watts, np.nan]
    level = np.array(y)
    if not np.isfinite(level).any():
        return None
    return Line(np.array(x), level, 0, "idle", words_of("idle", level, _watts), dashed=True)


def _idle_watts(step: Step, node: str) -> float:
    found = [domain for domain in step.energy.domains if domain.node == node]
    known = [d.baseline_milliwatts for d in found if d.baseline_milliwatts is not None]
    return sum(known) / 1000 if found and len(known) == len(found) else np.nan


def _summary(total: Floats, idle: Line | None) -> str:
    present = total[np.isfinite(total)]
    mean, high = float(present.mean()), float(present.max())
    summary = f"Mean {_watts(mean)}, maximum {_watts(high)}"
    if idle is None:
        return f"{summary}."
    return f"{summary}; {_watts(float(np.nanmean(idle.y)))} idle."


def _watts(value: float) -> str:
    return f"{significant(value)} W"
