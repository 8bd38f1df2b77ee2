"""The page of inspected models as one HTML file that opens offline."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from inferometer_analysis.patterns import OperatorNode, Pattern, repeated_patterns
from inferometer_analysis.weight_values import BITS, EDGES, WeightValues
from inferometer_api.wording import counted
from inferometer_results.quantity import count_of, size
from inferometer_results.report.axis import linear_axis, span_axis
from inferometer_results.report.chart import Area, Chart
from inferometer_results.report.page import content_policy, page_style, template_environment
from inferometer_results.report.svg import draw

MOST_PATTERNS = 40
_CHART_HEIGHT = 210.0


@dataclass(frozen=True, slots=True)
class InspectedModel:
    """What is known of a model without running it."""

    name: str
    size_bytes: int
    parameters: int
    nodes: Sequence[OperatorNode]
    weights: WeightValues


@dataclass(frozen=True, slots=True)
class Inspection:
    """Some models, the operators of all, and the patterns that repeat."""

    models: Sequence[InspectedModel]
    patterns: Sequence[Pattern]
    operators: Sequence[tuple[str, int, int]]
    """Operator, how often it occurs, and in how many models; the most frequent first."""


def inspection_of(models: Sequence[InspectedModel]) -> Inspection:
    """Return what some models have in common."""
    occurrences: Counter[str] = Counter()
    having: Counter[str] = Counter()
    for model in models:
        found = Counter(node.operator for node in model.nodes)
        occurrences.update(found)
        having.update(found.keys())
    return Inspection(
        models=models,
        patterns=repeated_patterns([model.nodes for model in models]),
        operators=[(name, count, having[name]) for name, count in occurrences.most_common()],
    )


def inspection_document(inspection: Inspection) -> dict[str, Any]:
    """Return an inspection as JSON."""
    return {
        "models": [
            {
                "name": each.name,
                "bytes": each.size_bytes,
                "parameters": each.parameters,
                "operators": len(each.nodes),
                "weights": {
                    "tensors": each.weights.tensors,
                    "count": each.weights.count,
                    "notFinite": each.weights.not_finite,
                    "zeroShare": each.weights.zero_share,
                    "roundedToZeroShare": {
                        str(bits): share
                        for bits, share in each.weights.rounded_to_zero_share.items()
                    },
                },
            }
            for each in inspection.models
        ],
        "operators": [
            {"operator": name, "occurrences": count, "models": models}
            for name, count, models in inspection.operators
        ],
        "patterns": [
            {
                "operators": list(each.operators),
                "occurrences": each.occurrences,
                "models": each.models,
            }
            for each in inspection.patterns
        ],
    }


def render_inspection(inspection: Inspection) -> str:
    """Return the page; texts are escaped, and it loads nothing."""
    style = page_style()
    template = template_environment(PackageLoader("inferometer_results.inspection", ""))
    return template.get_template("inspection.html.j2").render(
        inspection=inspection,
        rows=list(_rows(inspection)),
        patterns=inspection.patterns[:MOST_PATTERNS],
        all_operators=max(sum(len(each.nodes) for each in inspection.models), 1),
        bits=BITS,
        drawn=list(_drawn(inspection)),
        style=style,
        policy=content_policy(style),
    )


def _rows(inspection: Inspection) -> Iterator[tuple[str, ...]]:
    for each in inspection.models:
        kinds = len({node.operator for node in each.nodes})
        yield (
            each.name,
            count_of(each.parameters),
            size(each.size_bytes),
            f"{len(each.nodes):,}",
            str(kinds),
            *(f"{100 * each.weights.rounded_to_zero_share[bits]:.1f} %" for bits in BITS),
        )


def _drawn(inspection: Inspection) -> Iterator[tuple[str, Markup, str]]:
    """Yield name, histogram and caption of each model with weights."""
    for index, each in enumerate(inspection.models):
        weights = each.weights
        if not weights.count:
            continue
        percent = 100 * weights.histogram
        words = [
            f"{low:.2f} to {high:.2f}: {share:.2f} %"
            for low, high, share in zip(EDGES[:-1], EDGES[1:], percent, strict=True)
        ]
        odd = f" {weights.not_finite:,} are no numbers." if weights.not_finite else ""
        chart = Chart(
            key="weights",
            title=each.name,
            caption="",
            summary=f"The weights of {each.name} as shares of the largest in their tensor.",
            x=span_axis("weight / largest of its tensor", -1.0, 1.0),
            y=linear_axis("% of the weights", percent),
            marks=[Area(edges=EDGES, heights=percent, series=1, values=tuple(words))],
            height=_CHART_HEIGHT,
        )
        tensors = counted(weights.tensors, "tensor")
        caption = f"{count_of(weights.count)} weights in {tensors}.{odd}"
        yield each.name, draw(chart, f"m{index}"), caption
