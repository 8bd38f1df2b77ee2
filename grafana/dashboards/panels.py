"""The panels, all in one style.

Each function makes one kind of panel from its title, the unit of its values, what is said about it
(what it shows, of which metric, what to do about it), and its queries.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from grafana_foundation_sdk.builders import (
    common as build,
)
from grafana_foundation_sdk.builders import (
    dashboard as frame,
)
from grafana_foundation_sdk.builders import (
    heatmap,
    prometheus,
    stat,
    statetimeline,
    text,
    timeseries,
)
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import statetimeline as statetimeline_models
from grafana_foundation_sdk.models import text as text_models
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.dashboards import palette

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
SCRAPE = "$scrape"
"""How often Prometheus scrapes: the least step, and a quarter of the least rate interval."""
_LAST = ["lastNotNull"]
NAMES = "ABCDEFGHIJKLMNOP"


@dataclass(frozen=True, slots=True)
class Query:
    """A Prometheus query of a panel, and the legend of its series."""

    expr: str
    legend: str = ""


def lines(title: str, unit: str, says: str, *queries: Query) -> timeseries.Panel:
    """Return a panel of lines over time, with a table of their last, mean and highest values."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .height(8)
        .span(8)
        .color_scheme(by_name())
        .line_width(1)
        .fill_opacity(8)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            build.VizLegendOptions()
            .show_legend(show_legend=True)
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .calcs(["lastNotNull", "mean", "max"])
        )
        .tooltip(
            build.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )
    for query, name in zip(queries, NAMES, strict=False):
        panel.with_target(target(query, name).range())
    return panel


def stacked(panel: timeseries.Panel) -> timeseries.Panel:
    """Return a panel whose lines are added up."""
    return panel.fill_opacity(40).stacking(
        build.StackingConfig().mode(common.StackingMode.NORMAL).group("A")
    )


def logarithmic(panel: timeseries.Panel) -> timeseries.Panel:
    """Return a panel with a logarithmic axis, for what spans orders of magnitude."""
    panel.build().field_config.defaults.min_val = None  # type: ignore[union-attr] # lines() set it
    return panel.fill_opacity(0).scale_distribution(
        build.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10)
    )


def coloured(panel: timeseries.Panel, colours: Mapping[str, str]) -> timeseries.Panel:
    """Return a panel whose lines that have these words in their names have these colours."""
    for name, colour in colours.items():
        panel.override_by_regexp(f"/(^|\\s){re.escape(name)}(\\s|$)/", [fixed(colour)])
    return panel


def from_below(panel: timeseries.Panel) -> timeseries.Panel:
    """Return a panel whose axis does not begin at zero, for what never comes near it."""
    panel.build().field_config.defaults.min_val = None  # type: ignore[union-attr] # lines() set it
    return panel.fill_opacity(0)


def dashed(panel: timeseries.Panel, name: str) -> timeseries.Panel:
    """Return a panel that draws one line, the target, dashed and without a filling."""
    style = {"fill": "dash", "dash": [8, 6]}
    return panel.override_by_regexp(
        f"/^{name}/",
        [
            fixed(palette.ASKED),
            DynamicConfigValue("custom.lineStyle", style),
            DynamicConfigValue("custom.fillOpacity", 0),
        ],
    )


def on_the_right(panel: timeseries.Panel, name: str, unit: str) -> timeseries.Panel:
    """Return a panel with one line on an axis of its own, on the right."""
    return panel.override_by_name(
        name,
        [DynamicConfigValue("custom.axisPlacement", "right"), DynamicConfigValue("unit", unit)],
    )


def number(title: str, unit: str, says: str, query: Query) -> stat.Panel:
    """Return a panel of one figure: the last, with its course behind it."""
    return (
        stat.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .height(4)
        .span(4)
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.AREA)
        .reduce_options(build.ReduceDataOptions().calcs(_LAST))
        .thresholds(steps(palette.PLAIN))
        .color_scheme(_by_thresholds())
        .with_target(target(query, "A").range())
    )


def fact(title: str, unit: str, says: str, query: Query) -> stat.Panel:
    """Return a panel of one figure as it is at the end of the time range."""
    panel = number(title, unit, says, query).graph_mode(common.BigValueGraphMode.NONE)
    panel.targets([target(query, "A").instant()])
    return panel


def states(
    title: str, says: str, named: Mapping[int, tuple[str, str]], *queries: Query
) -> statetimeline.Panel:
    """Return a timeline of states; `named` holds each value's name and colour."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit("none")
        .height(6)
        .span(24)
        .mappings(mappings(named))
        .color_scheme(by_name())
        .show_value(common.VisibilityMode.AUTO)
        .merge_values(merge_values=True)
        .row_height(0.8)
        .fill_opacity(70)
        .line_width(0)
        .legend(
            build.VizLegendOptions()
            .show_legend(show_legend=True)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .calcs([])
        )
        .tooltip(build.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE))
    )
    for query, name in zip(queries, NAMES, strict=False):
        panel.with_target(target(query, name).range())
    # Rows are few: pages of them, which the SDK makes by default, only take room.
    options = panel.build().options
    if isinstance(options, statetimeline_models.Options):
        options.per_page = None
    return panel


def density(title: str, unit: str, says: str, query: Query) -> heatmap.Panel:
    """Return a histogram's buckets over time; the query's label `le` is their upper bound."""
    return (
        heatmap.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit("short")
        .height(8)
        .span(12)
        .calculate(calculate=False)
        .y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(common.AxisPlacement.LEFT))
        .color(heatmap.HeatmapColorOptions().scheme("Oranges").steps(64).exponent(0.5))
        .cell_gap(0)
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .show_legend()
        .with_target(target(query, "A").range().format(PromQueryFormat.HEATMAP))
    )


def words(title: str, says: str, markdown: str) -> text.Panel:
    """Return a panel of text."""
    return (
        text.Panel()
        .title(title)
        .description(says)
        .mode(text_models.TextMode.MARKDOWN)
        .content(markdown)
    )


def steps(*colours: str | tuple[float, str]) -> frame.ThresholdsConfig:
    """Return thresholds: the colour below all of them first, then from which value on which."""
    return (
        frame.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps(
            [
                Threshold(None, colour) if isinstance(colour, str) else Threshold(*colour)
                for colour in colours
            ]
        )
    )


def mappings(named: Mapping[int, tuple[str, str]]) -> list[ValueMapping]:
    """Return how values read and which colours they have."""
    return [
        ValueMap(
            {
                str(value): ValueMappingResult(text=name, color=colour, index=place)
                for place, (value, (name, colour)) in enumerate(named.items())
            }
        )
    ]


VERDICT = mappings({1: ("VALID", palette.GOOD), 0: ("INVALID", palette.BAD)})[0]


def link(title: str, uid: str, *names: str) -> frame.DashboardLink:
    """Return a link to another dashboard that keeps these variables and the time range."""
    variables = "&".join(f"var-{name}=${{{name}}}" for name in names)
    return (
        frame.DashboardLink(title)
        .type(DashboardLinkType.LINK)
        .url(f"/d/{uid}?{variables}")
        .icon("dashboard")
        .keep_time(keep_time=True)
    )


def target(query: Query, name: str) -> prometheus.Dataquery:
    """Return a query as the panel's target of that name; its datasource is the variable's."""
    query_target = prometheus.Dataquery().expr(query.expr).ref_id(name).interval(SCRAPE)
    return query_target.legend_format(query.legend or "__auto").datasource(SOURCE)


def by_name() -> frame.FieldColor:
    """Return colours that a series keeps as long as its name is the same."""
    return frame.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME)


def _by_thresholds() -> frame.FieldColor:
    return frame.FieldColor().mode(FieldColorModeId.THRESHOLDS)


def fixed(colour: str) -> DynamicConfigValue:
    """Return what an override says to give a series this colour."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
