"""The start and the end of each scenario's measurement on the time axis.

As scrapes saw it: the first and the last that found the load generator measuring.
"""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as models
from typing_extensions import override

from grafana.dashboards import palette
from grafana.dashboards.panels import SCRAPE, SOURCE
from grafana.dashboards.promql import STEP, of
from inferometer_api.metrics import definitions as m

_MEASURING = of(m.LOAD_STAGE, f'{STEP}, stage="Measuring"') + " == 1"
_TIMES = f"timestamp({_MEASURING})[$__range:{SCRAPE}]"
_BEGINS = f"1000 * min by (scenario, step) (min_over_time({_TIMES}))"
_ENDS = (
    f"1000 * max by (scenario, step) (max_over_time({_TIMES})) "
    f"unless on (scenario, step) ({_MEASURING})"
)


def edges() -> list[build.AnnotationQuery]:
    """Return the annotations of both edges."""
    return [
        _edge("begins", "late", palette.GOOD, _BEGINS),
        _edge("ends", "early", palette.ASKED, _ENDS),
    ]


class _Event(models.AnnotationQuery):
    """An annotation with what the SDK does not know of Prometheus's.

    A value is the time itself (`useValueForTime`) and is the same at each step of the query: so
    Grafana draws it once and in its place, however coarse the steps are.
    """

    says = ""
    """What its tooltip says of how exact it is."""

    @override
    def to_json(self) -> dict[str, object]:
        return super().to_json() | {
            "target": {"expr": self.expr, "interval": SCRAPE, "refId": "Edges", "range": True},
            "useValueForTime": True,
            "titleFormat": f"{{{{scenario}}}} {{{{step}}}}: {self.name.lower()}",
            "textFormat": self.says,
            "tagKeys": "scenario,step",
        }


class _Edge(build.AnnotationQuery):
    """The builder of such an annotation."""

    def __init__(self, says: str) -> None:
        self._internal = _Event()
        self._internal.says = says


def _edge(word: str, off: str, colour: str, expr: str) -> build.AnnotationQuery:
    edge = _Edge(f"Up to one scrape {off}.").name(f"Measuring {word}").icon_color(colour).expr(expr)
    return edge.datasource(SOURCE).enable(enable=True)
