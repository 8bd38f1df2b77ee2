"""The panels of a run's server."""

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Panel

from grafana.dashboards import palette
from grafana.dashboards.frame import Panels
from grafana.dashboards.panels import Query, coloured, lines, logarithmic, on_the_right
from grafana.dashboards.promql import RUN, mean, of, quantile, rate
from inferometer_api.metrics import definitions as m
from inferometer_api.metrics.definitions import Metric

_NONE = "Empty for an External server, which has other metrics."


def panels() -> Panels:
    """Return the panels of the server's own figures."""
    return [*_requests(), *_durations()]


def _requests() -> Panels:
    return [
        lines(
            "Requests",
            "reqps",
            "Finished requests by endpoint and code, from inferometer_server_requests_total, "
            "including those of the warm-up and of health checks. If codes other than 200 or OK "
            f"appear, check the server's log. {_NONE}",
            Query(
                f"sum by (protocol, endpoint, code) ({rate(m.SERVER_REQUESTS, RUN)}) > 0",
                "{{protocol}} {{endpoint}} {{code}}",
            ),
        ),
        lines(
            "Pending requests",
            "short",
            "Inference requests that the server holds, from inferometer_server_pending_requests. "
            "Up to `instances` of them are being computed, the others wait. If they keep rising, "
            "the server is over its capacity.",
            Query(f"sum by (model) ({of(m.SERVER_PENDING, RUN)})", "{{model}}"),
        ),
        on_the_right(
            lines(
                "Batch size",
                "short",
                "Samples per execution of the model, on average, from "
                "inferometer_server_batch_size, and samples per second, from "
                "inferometer_server_inferences_total. If the mean is near 1 under load with "
                "`batching` set, requests arrive too rarely to be joined.",
                Query(mean(m.SERVER_BATCH, RUN), "batch size"),
                Query(f"sum({rate(m.SERVER_INFERENCES, RUN)})", "inferences per second"),
            ),
            "inferences per second",
            "short",
        ),
    ]


def _durations() -> Panels:
    return [
        _times(
            "Request",
            m.SERVER_REQUEST,
            "From the last byte of a request to its answer, from "
            "inferometer_server_request_duration_seconds. If it is far below the load generator's "
            "latency, the rest of the time is spent in the network or before sending.",
        ),
        _times(
            "Queue",
            m.SERVER_QUEUE,
            "Time that requests waited for the model, from "
            "inferometer_server_queue_duration_seconds. If it exceeds Compute, add instances or "
            "replicas, enable batching, or lower the rate.",
        ),
        _times(
            "Compute",
            m.SERVER_COMPUTE,
            "Time in the model per execution, from inferometer_server_compute_duration_seconds. If "
            "it rises at the same batch size, look for throttling, a falling frequency or other "
            "processes on the node.",
        ),
    ]


def _times(title: str, metric: Metric, says: str) -> Builder[Panel]:
    panel = lines(
        title,
        "s",
        says,
        Query(quantile(0.5, metric, RUN), "p50"),
        Query(quantile(0.99, metric, RUN), "p99"),
        Query(mean(metric, RUN), "mean"),
    )
    return coloured(logarithmic(panel), palette.PERCENTILES | {"mean": palette.ACHIEVED})
