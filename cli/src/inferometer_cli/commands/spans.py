"""`inferometer spans`: shows where the traced queries of a result spent their time."""

from pathlib import Path
from typing import Annotated, Any

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_cli.cluster.options import (
    ClusterOptions,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    ResultArgument,
)
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.result_file import load_result
from inferometer_cli.terminal import flushed_output, output_console, print_message, print_output

_TIMEOUT_SECONDS = 30.0
_TRACES_PATH = "/v1/traces"
_PerfettoOption = Annotated[
    Path | None,
    typer.Option(
        "--perfetto",
        metavar="FILE",
        help="Write the queries as a Chrome trace, which https://ui.perfetto.dev opens.",
        show_default=False,
    ),
]
_OtlpOption = Annotated[
    str | None,
    typer.Option(
        "--otlp",
        metavar="URL",
        help="Send the queries to an OpenTelemetry collector or Jaeger by OTLP/HTTP: "
        "http://HOST:4318. Without a path, /v1/traces is used.",
        show_default=False,
    ),
]


def spans(  # noqa: PLR0913 - one argument for each option
    result: ResultArgument,
    *,
    perfetto: _PerfettoOption = None,
    otlp: _OtlpOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the traces as JSON instead of the tables.")
    ] = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show where traced queries spent their time: the slowest 1 % against the median, by part.

    A run traces its queries with spec.load.tracing, for instance
    `inferometer run FILE --set spec.load.tracing.sampleEvery=100`.
    """
    from inferometer_results.tracing import traced_steps

    document = load_result(result, ClusterOptions(namespace, context, kubeconfig))
    if not any(traced_steps(document)):
        raise RefusedError(
            f"{result} has no traced queries. Run it with spec.load.tracing, for instance "
            "--set spec.load.tracing.sampleEvery=100."
        )
    if json:
        print_output(_json(document))
    else:
        from inferometer_cli.tables.spans import print_traces

        with flushed_output():
            print_traces(document, output_console())
    if perfetto is not None:
        _write(document, perfetto)
    if otlp is not None:
        _send(document, otlp)


def _json(document: ResultDocument) -> str:
    import orjson

    from inferometer_results.tracing import traced_steps

    rows: list[dict[str, Any]] = [
        {
            "scenario": each.scenario.name,
            "repeat": each.scenario.repeat,
            "step": each.step.label,
            "tracing": each.tracing.model_dump(mode="json", by_alias=True),
        }
        for each in traced_steps(document)
    ]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode()


def _write(document: ResultDocument, path: Path) -> None:
    from inferometer_results.export.chrome_trace import chrome_trace

    try:
        path.write_text(chrome_trace(document), encoding="utf-8")
    except OSError as error:
        raise FailedError(f"Cannot write {path}: {error.strerror}.") from error
    print_message(f"trace   {path}  (open it at https://ui.perfetto.dev)")


def _send(document: ResultDocument, url: str) -> None:
    """Send the spans; raises FailedError with the collector's answer."""
    from http import HTTPStatus
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    from inferometer_results.export.otlp import otlp_message

    address = _traces_url(url)
    request = Request(  # noqa: S310 - its scheme is checked
        address,
        data=otlp_message(document),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the same
            status = answer.status
    except HTTPError as error:
        words = error.read(500).decode("utf-8", "replace").strip()
        raise FailedError(
            f"The collector at {address} answered {error.code} {error.reason}"
            + (f": {words}" if words else "")
            + ". Check the address: OTLP/HTTP usually listens on port 4318."
        ) from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or reason
        raise FailedError(
            f"Cannot send spans to {address}: {why}. Check the address, and that the collector "
            "takes OTLP/HTTP."
        ) from error
    if status != HTTPStatus.OK:
        raise FailedError(f"The collector at {address} answered {status} instead of 200.")
    print_message(f"sent    {address}")


def _traces_url(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_good = False
    if not is_good:
        raise RefusedError(f'--otlp expects a URL such as http://127.0.0.1:4318, but got "{url}".')
    return url if parts.path.strip("/") else url.rstrip("/") + _TRACES_PATH
