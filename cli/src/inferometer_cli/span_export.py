"""Exports of spans: a Chrome trace, and OTLP to a file or an OpenTelemetry collector."""

import json
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from inferometer_api.results.result import ResultDocument
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.result_file import check_directory
from inferometer_cli.terminal import print_message

_TIMEOUT_SECONDS = 30.0
_TRACES_PATH = "/v1/traces"
_NO_SPANS = b'{"resourceSpans":[]}'
_ADDRESS = re.compile(r"[^/]+:[0-9]+(/|$)")
_MOST_ANSWER_BYTES = 1 << 16
PerfettoOption = Annotated[
    Path | None,
    typer.Option(
        "--perfetto",
        metavar="FILE",
        help="Write queries, layers and kernels as a Chrome trace, which https://ui.perfetto.dev "
        "opens.",
        show_default=False,
    ),
]
OtlpOption = Annotated[
    str | None,
    typer.Option(
        "--otlp",
        metavar="FILE|URL",
        help="Send queries, layers and kernels to an OpenTelemetry collector or Jaeger by "
        "OTLP/HTTP: http://HOST:4318, without a path to /v1/traces; or write them to a file, "
        "which has a slash or the ending .json.",
        show_default=False,
    ),
]


def has_spans(document: ResultDocument) -> bool:
    """Return whether a result has a traced query or a profiled inference."""
    from inferometer_results.export.profile_timeline import profile_timelines
    from inferometer_results.tracing import traced_steps

    return any(traced_steps(document)) or any(profile_timelines(document))


def check_exports(perfetto: Path | None, otlp: str | None) -> None:
    """Check, before anything is measured, that files can be written and a collector answers.

    The collector gets a message without spans. Raises RefusedError or FailedError.
    """
    if perfetto is not None:
        _check_file(perfetto, "--perfetto")
    if otlp is not None:
        target = otlp_target(otlp)
        if isinstance(target, Path) and perfetto and target.resolve() == perfetto.resolve():
            raise RefusedError(
                f"--perfetto and --otlp would both write {perfetto}: give each a file of its own."
            )
        if isinstance(target, Path):
            _check_file(target, "--otlp")
        else:
            _send(_NO_SPANS, target)


def export_spans(document: ResultDocument, perfetto: Path | None, otlp: str | None) -> None:
    """Write and send the spans of a result. Raises FailedError if that is not possible."""
    from inferometer_results.export.chrome_trace import chrome_trace
    from inferometer_results.export.otlp import otlp_message

    if (perfetto or otlp) and not has_spans(document):
        raise FailedError(
            "There are no spans to export: the result has neither a traced query nor a profiled "
            "inference."
        )
    if perfetto is not None:
        _write(chrome_trace(document), perfetto)
        print_message(f"trace   {perfetto}  (open it at https://ui.perfetto.dev)")
    if otlp is not None:
        target = otlp_target(otlp)
        message = otlp_message(document)
        if isinstance(target, Path):
            _write(message.decode() + "\n", target)
            print_message(f"spans   {target}")
        else:
            _send(message, target)
            print_message(f"sent    {target}")


def otlp_target(text: str) -> Path | str:
    """Return the file or the collector's URL that --otlp names. Raises RefusedError."""
    from urllib.parse import urlsplit

    is_address = _ADDRESS.match(text) is not None  # of a host and a port, without http://
    if "://" not in text and not is_address and ("/" in text or text.endswith(".json")):
        return Path(text)
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise RefusedError(
            f"--otlp expects a URL such as http://127.0.0.1:4318, or a file such as spans.json, "
            f'but got "{text}".'
        )
    return text if parts.path.strip("/") else parts._replace(path=_TRACES_PATH).geturl()


def _check_file(path: Path, option: str) -> None:
    if path.is_dir():
        raise RefusedError(f"Cannot write {path}: it is a directory. Choose a file with {option}.")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise RefusedError(
                f"Cannot write {path}: permission denied. Choose another file with {option}."
            )
        return
    if not path.parent.is_dir():
        raise RefusedError(
            f"Cannot write {path}: the directory {path.parent} does not exist. Create it, or "
            f"choose another file with {option}."
        )
    check_directory(path.parent, what=path.name, option=option)


def _write(text: str, path: Path) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FailedError(f"Cannot write {path}: {error.strerror}.") from error


def _send(message: bytes, address: str) -> None:
    """Send a message; raises FailedError with the collector's answer."""
    from http import HTTPStatus
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    request = Request(  # noqa: S310 - its scheme is checked
        address,
        data=message,
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the same
            status, body = answer.status, answer.read(_MOST_ANSWER_BYTES)
    except HTTPError as error:
        words = error.read(500).decode("utf-8", "replace").strip()
        raise FailedError(
            f"The collector at {address} answered {error.code} {error.reason}"
            + (f": {words}" if words else "")
            + ". Check the address: OTLP/HTTP usually listens on port 4318."
        ) from error
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        why = getattr(reason, "strerror", None) or str(reason).strip() or type(reason).__name__
        raise FailedError(
            f"Cannot send spans to {address}: {why}. Check the address, and that the collector "
            "takes OTLP/HTTP, which usually listens on port 4318; 4317 is that of gRPC."
        ) from error
    if status != HTTPStatus.OK:
        raise FailedError(f"The collector at {address} answered {status} instead of 200.")
    rejected, why = _rejected(body)
    if rejected:
        raise FailedError(f"The collector at {address} rejected {rejected} spans{why}.")


def _rejected(body: bytes) -> tuple[int, str]:
    """Return how many spans an answer says that it rejected (OTLP's partial success), and why."""
    try:
        found = json.loads(body or b"{}").get("partialSuccess") or {}
        count = int(found.get("rejectedSpans", 0))
    except (ValueError, AttributeError, TypeError):
        return 0, ""  # a collector may answer in another form
    why = str(found.get("errorMessage", "")).strip().rstrip(".")
    return count, f": {why}" if why else ""
