"""`inferometer serve`: serves one model until it is stopped."""

import argparse
import tempfile
from pathlib import Path

import typer
from typing_extensions import override

from inferometer_api.runtimes.onnxruntime import ONNX_RUNTIME
from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.program import check_installed, program_name
from inferometer_serving.options import ServeOptions, add_options, parse, serve_options

DEFAULT_HTTP_PORT, DEFAULT_GRPC_PORT = 8000, 8001

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Every argument is passed through: the server itself defines and documents its options."""


def serve(context: typer.Context) -> None:
    """Serve one ONNX model over the Open Inference Protocol v2, HTTP and gRPC."""
    arguments = parse(_parser(), context.args)
    launch = ONNX_RUNTIME.launch
    check_installed(None if launch is None else launch.local)
    with tempfile.TemporaryDirectory(prefix="inferometer-") as folder:
        options = _fetch(arguments, Path(folder))
        from inferometer_serving.main import serve as serve_until_stopped

        raise typer.Exit(serve_until_stopped(options))


def _fetch(arguments: argparse.Namespace, folder: Path) -> ServeOptions:
    from inferometer_fetch.errors import FetchFailedError
    from inferometer_fetch.model import fetch_model
    from inferometer_models.errors import ModelRefusedError

    try:
        model = fetch_model(
            arguments.model_uri,
            folder,
            relative_to=Path(),
            sha256=arguments.sha256,
            max_bytes=arguments.max_model_bytes,
        )
    except ModelRefusedError as refusal:
        raise RefusedError(str(refusal)) from refusal
    except FetchFailedError as fault:
        raise FailedError(str(fault)) from fault
    except OSError as error:
        raise FailedError(
            f"Cannot write the model {arguments.model_uri} to {folder}: {error.strerror}."
        ) from error
    return serve_options(model.path, vars(arguments), model.name)


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows a default, if there is one, as it would be typed."""

    @override
    def _get_help_string(self, action: argparse.Action) -> str | None:
        match action.default:
            case None:
                return action.help
            case tuple() as values:
                return f"{action.help} (default: {','.join(map(str, values))})"
            case _:
                return super()._get_help_string(action)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program_name()} serve",
        description="Serve one ONNX model over the Open Inference Protocol v2, HTTP and gRPC. "
        "Ends on Ctrl-C or SIGTERM, after the requests in flight.",
        formatter_class=_Help,
    )
    parser.add_argument(
        "model_uri",
        metavar="MODEL_URI",
        help="zoo://NAME (listed by `inferometer models`), file:PATH, or https://... with --sha256",
    )
    parser.add_argument(
        "--sha256", default=argparse.SUPPRESS, help="Checksum of the model; required with https://."
    )
    add_options(parser)
    parser.set_defaults(http_port=DEFAULT_HTTP_PORT, grpc_port=DEFAULT_GRPC_PORT, sha256=None)
    return parser
