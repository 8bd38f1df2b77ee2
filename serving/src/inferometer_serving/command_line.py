"""The command line of a server: how each of its options is written and read."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from inferometer_serving.options import (
    Device,
    EngineName,
    ExecutionMode,
    GraphOptimization,
    ModelControlMode,
    Precision,
    Provider,
    ServeOptions,
)

_DEFAULTS = {each.name: each.default for each in fields(ServeOptions)}
"""MISSING where a field has none, or makes a new one each time."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a server, as `inferometer serve` and the server's own process take it."""

    name: str
    """The field of ServeOptions."""
    read: Callable[[str], Any]
    """Turns what was typed into the field's value; ValueError or ArgumentTypeError says why not."""
    help: str
    metavar: str
    repeated: bool = False
    """May be given several times; a dict collects what was read."""

    @property
    def default(self) -> Any:
        """Return the field's own default."""
        default = _DEFAULTS[self.name]
        return None if default is MISSING else default

    @property
    def flag(self) -> str:
        """Return the option as typed: --http-port; in the singular where it may be repeated."""
        name = self.name.removesuffix("s") if self.repeated else self.name
        return "--" + name.replace("_", "-")


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
        return value

    return read


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value


def _model_name(text: str) -> str:
    if not text or "/" in text or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no name: it stands in URLs, between slashes")
    return text


def _device(text: str) -> Device:
    try:
        return Device(text.upper())
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no device: CPU or GPU") from error


def _engine(text: str) -> EngineName:
    try:
        return EngineName(text.lower())
    except ValueError as error:
        known = " or ".join(EngineName)
        raise argparse.ArgumentTypeError(f"{text!r} is no engine: {known}") from error


def _one_of(choices: type[StrEnum], what: str) -> Callable[[str], StrEnum]:
    def read(text: str) -> StrEnum:
        for choice in choices:
            if text.upper() == choice.upper():
                return choice
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}: {', '.join(choices)}")

    return read


def _switch(text: str) -> bool:
    if text.lower() not in {"on", "off", "true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is not on or off")
    return text.lower() in {"on", "true"}


def _control_mode(text: str) -> ModelControlMode:
    try:
        return ModelControlMode(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not none or explicit") from error


def _sizes(text: str) -> tuple[int, ...]:
    read = _whole(1, 1 << 20)
    return tuple(dict.fromkeys(read(each) for each in text.split(",")))


def _named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, separator, sizes = text.rpartition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape of an input: write for instance image=1,3,224,224"
        )
    read = _whole(1, 1 << 31)
    return name, tuple(read(each) for each in sizes.split(","))


def _named_model(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not separator or not path:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no model with a name: write for instance squeezenet=squeezenet.onnx"
        )
    return _model_name(name), Path(path)


OPTIONS: tuple[Option, ...] = (
    Option(
        "model_name", _model_name, "Name to serve the model as; default: its file's name.", "NAME"
    ),
    Option("engine", _engine, "Library that computes: onnxruntime or openvino.", "ENGINE"),
    Option("device", _device, "CPU, or GPU (CUDA). Refused if CUDA is not available.", "D"),
    Option(
        "precision",
        _one_of(Precision, "precision"),
        "Default, FP32, BF16, FP16 or INT8. ONNX Runtime computes in the types of the model, "
        "OpenVINO by default in BF16 if the CPU can.",
        "PRECISION",
    ),
    Option("threads", _whole(1, 1024), "Threads within an operator.", "N"),
    Option("instances", _whole(1, 64), "Instances of the model; each has its own threads.", "N"),
    Option(
        "max_batch_size",
        _whole(0, 4096),
        "Join requests along the batch axis, up to this number of samples; 0: never join.",
        "N",
    ),
    Option(
        "max_delay_microseconds",
        _whole(0, 60_000_000),
        "How long a request may wait for others to join it.",
        "N",
    ),
    Option("host", str, "Address to listen on.", "ADDRESS"),
    Option("http_port", _whole(0, 65535), "Port for HTTP; 0 takes a free one.", "PORT"),
    Option("grpc_port", _whole(0, 65535), "Port for gRPC; 0 takes a free one.", "PORT"),
    Option(
        "max_body_bytes",
        _whole(1, (1 << 31) - 1),
        "Largest request taken, and largest it may be once decompressed.",
        "BYTES",
    ),
    Option(
        "max_model_bytes",
        _whole(1, 1 << 50),
        "Largest model taken, external data included.",
        "BYTES",
    ),
    Option(
        "warm_up_batch_sizes",
        _sizes,
        "Batch sizes to run once before the server is ready, as in 1,8,32.",
        "SIZES",
    ),
    Option(
        "warm_up_shapes",
        _named_shape,
        "Whole shape of an input with open axes other than the batch, as in image=1,3,224,224; "
        "may be given for several inputs.",
        "NAME=SHAPE",
        repeated=True,
    ),
    Option(
        "warm_up_inputs",
        Path,
        "A .npz file of samples, whose shapes inputs with open axes are warmed up with.",
        "FILE",
    ),
    Option(
        "drain_seconds",
        _seconds,
        "How long requests in flight may take to end after SIGTERM.",
        "SECONDS",
    ),
    Option(
        "model_control_mode",
        _control_mode,
        "Whether clients may load and unload the model: none or explicit.",
        "MODE",
    ),
    Option(
        "profiling",
        _switch,
        "on lets clients profile the model: POST /v2/models/NAME/profile. off: they may not.",
        "off|on",
    ),
    Option(
        "start_up_report",
        _switch,
        "on adds the phases of the server's start to the model's configuration. ONNX Runtime then "
        "profiles how it opens the model, and writes that to a temporary file.",
        "off|on",
    ),
    Option(
        "provider",
        _one_of(Provider, "provider"),
        "ONNX Runtime's execution provider: CPU, XNNPACK, CUDA, TensorRT or OpenVINO; Default is "
        "that of the device.",
        "PROVIDER",
    ),
    Option(
        "graph_optimization",
        _one_of(GraphOptimization, "graph optimisation"),
        "How far ONNX Runtime rewrites the graph: Disabled, Basic, Extended or All.",
        "LEVEL",
    ),
    Option(
        "execution_mode",
        _one_of(ExecutionMode, "execution mode"),
        "Parallel lets ONNX Runtime run independent operators at the same time; Sequential.",
        "MODE",
    ),
    Option(
        "inter_op_threads",
        _whole(1, 1024),
        "Threads that run operators at the same time, with --execution-mode Parallel.",
        "N",
    ),
    Option("arena", _switch, "Whether ONNX Runtime takes memory from an arena.", "off|on"),
    Option("spinning", _switch, "Whether ONNX Runtime's threads spin while they wait.", "off|on"),
    Option(
        "prepacking",
        _switch,
        "Whether ONNX Runtime rearranges weights when it opens the model; off keeps external data "
        "memory-mapped and shared.",
        "off|on",
    ),
    Option(
        "cuda_graph",
        _switch,
        "Whether an inference is launched on the GPU as one CUDA graph, of each shape of its "
        "inputs.",
        "off|on",
    ),
    Option(
        "channels_last",
        _switch,
        "Whether convolutions on the GPU have the channels last in memory.",
        "off|on",
    ),
    Option(
        "tf32", _switch, "Whether products of FP32 on the GPU may be rounded to TF32.", "off|on"
    ),
    Option(
        "weight_broker",
        Path,
        "The folder with the sockets of the brokers that share weights in GPU memory. A model "
        "whose weights cannot be shared loads its own.",
        "FOLDER",
    ),
    Option(
        "checksums",
        Path,
        "JSON with verified checksums by the paths of the model's files, which are then not read "
        "for theirs.",
        "FILE",
    ),
    Option(
        "manifest",
        Path,
        "The model's manifest: the server runs its steps, takes samples as they are (files, texts, "
        "numbers in JSON) and replies predictions.",
        "FILE",
    ),
    Option(
        "allow_python_steps",
        _switch,
        "on lets Python in the manifest run in the server. It may do anything that you may.",
        "off|on",
    ),
    Option(
        "other_models",
        _named_model,
        "A further ONNX file that the server holds under a name of its own, with the same "
        "settings; may be given for several models.",
        "NAME=PATH",
        repeated=True,
    ),
    Option("run", str, "The run that it serves: the label run of its metrics.", "NAME"),
    Option("run_namespace", str, "That run's namespace: the label run_namespace.", "NAME"),
)
"""Every option but the model itself, which is a path here and an address in `inferometer serve`."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add every option to a parser."""
    for option in OPTIONS:
        parser.add_argument(
            option.flag,
            dest=option.name,
            type=option.read,
            default=option.default,
            action="append" if option.repeated else "store",
            help=option.help,
            metavar=option.metavar,
        )


def parse(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """Read a command line by a parser that has the options, and refuse what means nothing."""
    arguments = parser.parse_args(words)
    if problem := conflict(vars(arguments)):
        parser.error(problem)
    return arguments


def conflict(values: Mapping[str, Any]) -> str:
    """Return why the values of the options do not fit together; empty if they do."""
    if values["max_delay_microseconds"] and not values["max_batch_size"]:
        return (
            "--max-delay-microseconds is how long a request waits for others to join it, and "
            "requests are never joined without --max-batch-size: give that as well"
        )
    names = [name for name, _ in values["other_models"] or ()]
    if len(set(names)) < len(names):
        return "two models have one name (--other-model): give each a name of its own"
    if names and values["warm_up_inputs"] is not None:
        return (
            "--warm-up-inputs has the samples of one model: with --other-model give "
            "--warm-up-shape instead"
        )
    return ""


def serve_options(model: Path, values: dict[str, Any], default_name: str) -> ServeOptions:
    """Return the options for a model from a parser's namespace as a dict."""
    known = {option.name: values[option.name] for option in OPTIONS}
    known["warm_up_shapes"] = dict(known["warm_up_shapes"] or {})
    known["other_models"] = dict(known["other_models"] or {})
    known["model_name"] = known["model_name"] or default_name
    return ServeOptions(model=model, **known)
