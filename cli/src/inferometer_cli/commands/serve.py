"""`inferometer serve`: serves one model until it is stopped."""

import argparse
import tempfile
from collections.abc import Iterator
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferometer_api.runtimes.onnxruntime import ONNX_RUNTIME
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import check_installed
from inferometer_cli.quick_run import is_model, model_uri
from inferometer_serving.command_line import OPTIONS, Option, conflict, serve_options
from inferometer_serving.options import ServeOptions

if TYPE_CHECKING:
    from inferometer_fetch.fetched_model import FetchedModel

DEFAULT_MODEL_BYTES = 8 << 30
_DEFAULT_PORTS = {"http_port": 8000, "grpc_port": 8001}


def serve(**values: Any) -> None:
    """Serve one ONNX model over the Open Inference Protocol v2, HTTP and gRPC.

    Ends on Ctrl-C or SIGTERM, after the requests in flight.
    """
    target, sha256 = values["model_uri"], values["sha256"]
    uri = model_uri(target) if is_model(target) else target
    options = {option.name: _read(option, values[option.name]) for option in OPTIONS}
    if problem := conflict(options):
        raise typer.BadParameter(problem)
    launch = ONNX_RUNTIME.launch
    check_installed(None if launch is None else launch.local)
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        fetched = _fetch(uri, sha256, options, Path(folder))
        from inferometer_serving.main import serve as serve_until_stopped

        raise typer.Exit(serve_until_stopped(fetched))


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters of the command: the model, and the server's own options."""
    uri = typer.Argument(
        metavar="MODEL",
        help="model.onnx, zoo://NAME (listed by `inferometer models`), or https://... with "
        "--sha256.",
        show_default=False,
    )
    yield Parameter("model_uri", Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[str, uri])
    sha256 = typer.Option(
        "--sha256", metavar="SHA256", help="Checksum of the model; required with https://."
    )
    yield Parameter(
        "sha256", Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, sha256]
    )
    for option in OPTIONS:
        default = _default(option)
        described = typer.Option(
            option.flag, metavar=option.metavar, help=option.help, show_default=bool(default)
        )
        shape = list[str] | None if option.repeated else str | None
        yield Parameter(
            option.name,
            Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[shape, described],
        )


def _default(option: Option) -> str | None:
    """Return the default as it would be typed; None without one."""
    match _DEFAULT_PORTS.get(option.name, option.default):
        case None | "" | {}:
            return None
        case bool(is_on):
            return "on" if is_on else "off"
        case tuple() as values:
            return ",".join(map(str, values))
        case value:
            return str(value)


def _read(option: Option, given: str | list[str] | None) -> Any:
    """Return the value of an option. Raises BadParameter with what is expected."""
    if given is None or given == []:
        return option.default
    try:
        return [option.read(each) for each in given] if option.repeated else option.read(str(given))
    except (ValueError, argparse.ArgumentTypeError) as error:
        raise typer.BadParameter(f"{error}.", param_hint=f"'{option.flag}'") from error


def _fetch(uri: str, sha256: str | None, options: dict[str, Any], folder: Path) -> ServeOptions:
    model = fetched_model(uri, sha256, folder, options["max_model_bytes"])
    return serve_options(model.path, options, model.name)


def fetched_model(
    uri: str, sha256: str | None, folder: Path, max_model_bytes: int = DEFAULT_MODEL_BYTES
) -> "FetchedModel":
    """Return the model at an address. Raises RefusedError and FailedError."""
    from inferometer_fetch.built_in import zoo_cache
    from inferometer_fetch.errors import FetchFailedError
    from inferometer_fetch.model import fetch_model
    from inferometer_models.errors import ModelRefusedError

    try:
        return fetch_model(
            uri,
            folder,
            relative_to=Path(),
            sha256=sha256,
            max_bytes=max_model_bytes,
            cache=zoo_cache(),
        )
    except ModelRefusedError as refusal:
        raise RefusedError(str(refusal)) from refusal
    except FetchFailedError as fault:
        raise FailedError(str(fault)) from fault
    except OSError as error:
        raise FailedError(f"Cannot write the model {uri} to {folder}: {error.strerror}.") from error


# The server's table of options makes the command's, so that both stay alike.
serve.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]
