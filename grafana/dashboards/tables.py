"""Tables and bars, which query Prometheus once, at the end of the time range."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import barchart, table
from grafana_foundation_sdk.builders import common as build
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DashboardRegexMapOptions,
    DataTransformerConfig,
    DynamicConfigValue,
    RegexMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.dashboards.panels import NAMES, SOURCE, VERDICT, Query, by_name, fixed, target

_READABLE = {"run_namespace": "namespace", "url": "result"}
"""Labels that are no headings; links still name a column by its label."""


def columns(
    title: str, says: str, first: tuple[str, ...], *queries: tuple[str, Query]
) -> table.Panel:
    """Return a table with a row for each set of labels and a column for each query.

    `first` are the labels and headings that stand first, in this order; the other queries follow.
    Each query comes with its column's unit; its legend is the heading. One without a legend has
    no column: its labels are what it is for.
    """
    panel = (
        table.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit("none")
        .height(8)
        .span(24)
        .cell_height(common.TableCellHeight.SM)
        .min_width(50)
        .show_header(show_header=True)
    )
    for (unit, query), name in zip(queries, NAMES, strict=False):
        panel.with_target(target(query, name).instant().format(PromQueryFormat.TABLE))
        if query.legend:
            panel.override_by_name(query.legend, [DynamicConfigValue("unit", unit)])
    order = dict.fromkeys((*first, *(query.legend for _, query in queries if query.legend)))
    for step in _merged([query for _, query in queries], tuple(order)):
        panel.with_transformation(step)
    return panel


def wide(panel: table.Panel, widths: Mapping[str, int]) -> table.Panel:
    """Return a table whose columns of these names are so many pixels wide."""
    for column, pixels in widths.items():
        panel.override_by_name(column, [DynamicConfigValue("custom.width", pixels)])
    return panel


def verdicts(panel: table.Panel, column: str) -> table.Panel:
    """Return a table whose column of ones and zeros reads VALID and INVALID, in colour."""
    return panel.override_by_name(
        column,
        [
            DynamicConfigValue("mappings", [VERDICT]),
            DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ],
    )


def linked(panel: table.Panel, column: str, title: str, url: str) -> table.Panel:
    """Return a table whose column's cells lead to a URL."""
    return panel.override_by_name(
        column, [DynamicConfigValue("links", [{"title": title, "url": url}])]
    )


def addresses(panel: table.Panel, column: str) -> table.Panel:
    """Return a table whose column of web addresses reads `open`, and opens them."""
    opened = RegexMap(
        options=DashboardRegexMapOptions(
            pattern=".+", result=ValueMappingResult(text="open", index=0)
        )
    )
    panel.override_by_name(column, [DynamicConfigValue("mappings", [opened])])
    return linked(panel, column, "Open the stored result", "${__value.raw}")


def bars(
    title: str, unit: str, says: str, colours: Mapping[str, str], *queries: Query
) -> barchart.Panel:
    """Return bars side by side; the label `bar` of a value says which group it belongs to.

    `colours` are those of the queries, by their legends.
    """
    panel = (
        barchart.Panel()
        .title(title)
        .description(says)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .height(9)
        .span(8)
        .x_field("bar")
        .orientation(common.VizOrientation.HORIZONTAL)
        .show_value(common.VisibilityMode.AUTO)
        .group_width(0.8)
        .bar_width(0.95)
        .fill_opacity(75)
        .line_width(0)
        .color_scheme(by_name())
        .legend(
            build.VizLegendOptions()
            .show_legend(show_legend=len(queries) > 1)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .calcs([])
        )
        .tooltip(
            build.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.NONE)
        )
    )
    for query, name in zip(queries, NAMES, strict=False):
        panel.with_target(target(query, name).instant().format(PromQueryFormat.TABLE))
    for step in _merged(queries, ("bar", *(query.legend for query in queries))):
        panel.with_transformation(step)
    for legend, colour in colours.items():
        panel.override_by_name(legend, [fixed(colour)])
    return panel


def _merged(queries: Sequence[Query], order: Sequence[str]) -> list[DataTransformerConfig]:
    """Return what makes one table of the queries' answers: rows of equal labels become one."""
    names = [f"Value #{name}" for name, _ in zip(NAMES, queries, strict=False)]
    if len(queries) == 1:
        names = ["Value"]
    headings = {name: query.legend for name, query in zip(names, queries, strict=True)}
    organize = {
        "excludeByName": {"Time": True} | {name: True for name in names if not headings[name]},
        "renameByName": _READABLE
        | {name: heading for name, heading in headings.items() if heading},
        "indexByName": {
            next((name for name in names if headings[name] == column), column): place
            for place, column in enumerate(order)
        },
    }
    return [
        DataTransformerConfig("merge", options={}),
        DataTransformerConfig("organize", options=organize),
    ]
