"""Runs without a file: the BenchmarkRun that a model, a URL and a few options mean."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import yaml

from inferometer_api.document import API_VERSION
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_api.spec.scenario import Probe, Validity
from inferometer_cli.exits import RefusedError

_MODEL_SUFFIX = ".onnx"
_OF_SERVERS = ("http://", "grpc://", "grpcs://")
_MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")
_LONGEST_NAME = 63
_USUAL_MOST_SECONDS: int = Validity.model_fields["max_duration_seconds"].default
_LONGEST_SECONDS = 604_800
"""The highest maxDurationSeconds."""
_PROBES_IN_SEARCH = _USUAL_MOST_SECONDS // Probe().max_seconds
"""How many probes of the usual length a search has time for; longer ones get as many."""
_SCENARIO = r"(?:spec\.scenarios\[\w+\]\.)"
_OPTIONS = tuple(
    (re.compile(rf"(?<![\w.]){field}"), option)
    for field, option in (
        # The protocol follows from the URL.
        (r" with load\.protocol: (?:HTTP|GRPC)", ""),
        (r"(?:spec\.)?server\.external(?:\.url)?\b", "--url"),
        (r"(?:spec\.)?server\.readyDeadlineSeconds\b", "--wait"),
        (r"(?:spec\.)?model\.name\b", "--model"),
        (r"(?:spec\.)?model\.uri\b", "the model"),
        (rf"{_SCENARIO}?(?:server\.)?targetQps\b", "--qps"),
        (rf"{_SCENARIO}?(?:(?:server|findPeak)\.)?latencyBoundMicroseconds\b", "--p99"),
        (rf"{_SCENARIO}?concurrency\.clients\b(?:\[\d+\])?", "--clients"),
        (r"(?:spec\.)?validity\.minDurationSeconds\b", "--seconds"),
        (rf"{_SCENARIO}?(?:findPeak\.)?probe\.maxSeconds\b", "--seconds"),
    )
)
"""The fields that an option sets, as messages name them."""
_PARTS = ("load", "model", "server", "telemetry", "validity")
_FIELD = re.compile(rf"(?<![\w./])(?:spec\.)?(({'|'.join(_PARTS)})\.(\w+)(?:\.\w+)*)")
_LINE = re.compile(r"(?<=\n  )line \d+: ")
"""The line of a problem in YAML that the user never saw."""


@dataclass(frozen=True, slots=True)
class QuickOptions:
    """What the command line says of a run without a file; None: not given."""

    url: str | None = None
    model: str | None = None
    qps: str | None = None
    p99: str | None = None
    clients: str | None = None
    seconds: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether any of them is given."""
        return any(
            each is not None
            for each in (self.url, self.model, self.qps, self.p99, self.clients, self.seconds)
        )


def in_flags(text: str) -> str:
    """Return a message about a run without a file with its options in place of the fields."""
    text = _LINE.sub("", text)
    for field, option in _OPTIONS:
        text = field.sub(option, text)
    return text


def field_hint(text: str) -> str:
    """Return how to set a field that a message names and no option sets; empty if it names none."""
    for found in _FIELD.finditer(in_flags(text)):
        # A path may look like one: model.onnx.
        if found[3] in _members(found[2]):
            return (
                f"To set a field such as {found[1]}, add --set spec.{found[1]}=VALUE, or write a "
                "run file with --print-yaml."
            )
    return ""


def _members(part: str) -> set[str]:
    """Return the names of the fields of a part of the spec."""
    found: Any = RunSpec.model_fields[part].annotation
    return {field.alias or name for name, field in found.model_fields.items()}


def is_model(target: str) -> bool:
    """Return whether a target of `inferometer run` is a model instead of a run file."""
    return has_model_suffix(target) or "://" in target


def has_model_suffix(path: str) -> bool:
    """Return whether a file is a model by its name, in capitals too."""
    return path.lower().endswith(_MODEL_SUFFIX)


def model_uri(model: str) -> str:
    """Return the address of a model that may be a path."""
    if "://" in model or model.startswith("file:"):
        return model
    return f"file:{quote(str(Path(model).absolute()))}"


def compose_run(target: str | None, options: QuickOptions) -> str:
    """Return the run that a model or URL and its options mean, as YAML.

    Raises RefusedError if they do not fit together.
    """
    what = _external(options) if target is None else _launched(target, options)
    name = str(what["model"].get("name") or Path(unquote(str(what["model"]["uri"]))).stem)
    spec = {**what, "scenarios": [_scenario(options)], **_limits(options)}
    run = {
        "apiVersion": API_VERSION,
        "kind": "BenchmarkRun",
        "metadata": {"name": _dns_label(name)},
        "spec": {key: value for key, value in spec.items() if value},
    }
    return yaml.safe_dump(run, sort_keys=False, allow_unicode=True)


def run_yaml(run: BenchmarkRun) -> str:
    """Return a run as the YAML of a run file, without its defaults."""
    fields = run.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    return yaml.safe_dump(_with_whole_rates(fields), sort_keys=False, allow_unicode=True)


def _with_whole_rates(value: Any) -> Any:
    """Return fields in which rates without decimals are numbers, as people write them."""
    if isinstance(value, list):
        return [_with_whole_rates(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: int(each)
        if name.endswith("Qps") and isinstance(each, str) and each.isdecimal()
        else _with_whole_rates(each)
        for name, each in value.items()
    }


def _external(options: QuickOptions) -> dict[str, Any]:
    if options.url is None:
        raise RefusedError(
            "Nothing to run. Give a run file, a model (model.onnx or zoo://TASK/NAME), or a "
            "server's --url and the name of its --model."
        )
    if not options.model:
        raise RefusedError(f"--url needs --model: the name of the model that {options.url} serves.")
    protocol = "GRPC" if options.url.startswith("grpc") else "HTTP"
    return {
        "model": {"name": options.model},
        "server": {"runtime": "External", "external": {"url": options.url}},
        "load": {"protocol": protocol},
    }


def _launched(target: str, options: QuickOptions) -> dict[str, Any]:
    if options.url is not None or options.model is not None:
        raise RefusedError(
            f"--url and --model mean a server that already serves, but {target} is to be served. "
            "Give one of both."
        )
    if target.startswith(_OF_SERVERS):
        raise RefusedError(
            f"{target} is the address of a server. To measure it, write --url {target} --model "
            "NAME. A model from the web comes by https://, with --set spec.model.sha256=CHECKSUM."
        )
    return {"model": {"uri": model_uri(target)}}


def _scenario(options: QuickOptions) -> dict[str, Any]:
    if options.clients is not None:
        if options.qps is not None or options.p99 is not None:
            raise RefusedError(
                "--clients is a closed loop, and --qps with --p99 an open one. Give one of both."
            )
        return {"name": "concurrency", "concurrency": {"clients": _numbers(options.clients)}}
    if options.qps is not None:
        bound = {} if options.p99 is None else {"latencyBoundMicroseconds": _us(options.p99)}
        return {"name": "traffic", "server": {"targetQps": options.qps, **bound}}
    if options.p99 is not None:
        probe = {} if options.seconds is None else {"probe": {"maxSeconds": options.seconds}}
        bound = {"latencyBoundMicroseconds": _us(options.p99)}
        return {"name": "capacity", "findPeak": {**bound, **probe}}
    return {"name": "latency", "singleStream": {}}


def _limits(options: QuickOptions) -> dict[str, Any]:
    """Return the minimums, and the limits that would end a longer measurement than usual."""
    if options.seconds is None:
        return {}
    if _is_search(options):
        validity, longest = {}, _PROBES_IN_SEARCH * options.seconds
    else:
        # The queries that fit are enough: the verdict says which percentile they show.
        validity = {"minDurationSeconds": options.seconds, "minQueries": 1}
        longest = options.seconds
    if longest <= _USUAL_MOST_SECONDS:
        return {"validity": validity}
    most = min(longest + _USUAL_MOST_SECONDS, _LONGEST_SECONDS)
    return {
        "validity": validity | {"maxDurationSeconds": most},
        "activeDeadlineSeconds": most + RunSpec.model_fields["active_deadline_seconds"].default,
    }


def _is_search(options: QuickOptions) -> bool:
    return options.p99 is not None and options.qps is None


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise RefusedError(
            f'--clients expects numbers such as 1,2,4, but "{text}" was given.'
        ) from error


def _us(text: str) -> int:
    """Return microseconds: 50000 for "50ms"."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise RefusedError(f'--p99 expects a time such as 50ms, 0.2s or 800us, but got "{text}".')
    return round(float(found[1]) * _MICROSECONDS[found[2]])


def _dns_label(name: str) -> str:
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return label[:_LONGEST_NAME].strip("-") or "model"
