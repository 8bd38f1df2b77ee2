"""What does a valid run ask for that this version cannot do here?

The API has more than this version does. What is not done yet is refused by name, never left out
in silence.
"""

from collections.abc import Iterator
from typing import Literal

from inferometer_api.run import BenchmarkRun, RunSpec

Place = Literal["Local"]

_NOT_HERE = "is not available in this version"
_SCENARIOS = ("singleStream", "server", "batch")
_MODEL_SCHEMES = ("zoo://", "file:", "https://")
_URL_SCHEMES = ("http://", "grpc://")

_Choice = tuple[str, object, tuple[object, ...]]
"""A path, what is asked there, and what this version can do."""


def unavailable(run: BenchmarkRun, *, place: Place) -> tuple[str, ...]:
    """Return a sentence for each thing that the spec asks and this version cannot do at `place`.

    Every sentence begins with the path; an empty tuple says that the run can be tried.
    """
    match place:
        case "Local":
            spec = run.spec
            return tuple(
                sentence
                for group in (_choices(spec), _addresses(spec), _scenarios(spec), _refused(spec))
                for sentence in group
            )


def _choices(spec: RunSpec) -> Iterator[str]:
    """Fields of which this version can do some values."""
    server, load, validity = spec.server, spec.load, spec.validity
    choices: tuple[_Choice, ...] = (
        ("spec.server.runtime", server.runtime, ("OnnxRuntime", "External")),
        ("spec.server.instances", server.instances, (1,)),
        ("spec.server.gpu.count", 1 if server.gpu is None else server.gpu.count, (1,)),
        ("spec.load.workers", load.workers, (1,)),
        ("spec.load.pacing", load.pacing, ("Timer",)),
        ("spec.validity.rules", validity.rules, ("Default",)),
        ("spec.validity.warmUp", validity.warm_up, ("Fixed",)),
        ("spec.validity.repeats", validity.repeats, (1,)),
    )
    for path, asked, available in choices:
        if asked not in available:
            yield f"{path}: {asked} {_NOT_HERE}; available: {_listed(available)}."


def _addresses(spec: RunSpec) -> Iterator[str]:
    """Addresses of which this version reaches some kinds."""
    uri = spec.model.uri
    if uri is not None and not uri.startswith(_MODEL_SCHEMES):
        yield (
            f"spec.model.uri: {_scheme(uri)} needs a cluster, and {_NOT_HERE}; "
            f"available: {_listed(_MODEL_SCHEMES)}."
        )
    file = spec.load.inputs.file
    if file is not None and not file.uri.startswith("file:"):
        yield (
            f"spec.load.inputs.file.uri: a local run reads file: only, not {_scheme(file.uri)}; "
            "fetch the .npz file and name it as file:PATH, relative to the run file."
        )
    external = spec.server.external
    if external is not None and external.service is not None:
        yield (
            "spec.server.external.service: a local run has no Services; give the server's "
            'address as url: "http://HOST:PORT" or "grpc://HOST:PORT".'
        )
    if external is not None and external.url and not external.url.startswith(_URL_SCHEMES):
        yield (
            f"spec.server.external.url: {_scheme(external.url)} (TLS) {_NOT_HERE}; "
            f"available: {_listed(_URL_SCHEMES)}."
        )


def _scenarios(spec: RunSpec) -> Iterator[str]:
    for index, scenario in enumerate(spec.scenarios):
        if scenario.kind not in _SCENARIOS:
            yield (
                f"spec.scenarios[{index}].{scenario.kind}: the scenario {scenario.name} is of a "
                f"kind that {_NOT_HERE}; available: {_listed(_SCENARIOS)}."
            )


def _refused(spec: RunSpec) -> Iterator[str]:
    """Fields that, once set, ask for something that cannot be done here."""
    server, load = spec.server, spec.load
    refused: tuple[tuple[str, bool, str], ...] = (
        (
            "spec.server.replicas",
            server.replicas != 1,
            f"{server.replicas} servers were asked for, but a local run has one; set it to 1",
        ),
        (
            "spec.server.batching",
            server.batching is not None,
            f"dynamic batching {_NOT_HERE}; leave it out, then requests are never joined",
        ),
        ("spec.load.tls", load.tls is not None, f"TLS {_NOT_HERE}; leave it out"),
        (
            "spec.load.headersSecret",
            load.headers_secret is not None,
            "a local run has no Secrets; leave it out",
        ),
        (
            "spec.load.headersFile",
            load.headers_file is not None,
            f"sending headers {_NOT_HERE}; leave it out",
        ),
        (
            "spec.suspend",
            spec.suspend,
            "a local run cannot be suspended: leave it out, and start the run when it shall run",
        ),
        (
            "spec.cancel",
            spec.cancel,
            "a local run is cancelled by Ctrl-C: leave it out",
        ),
    )
    for path, asked, sentence in refused:
        if asked:
            yield f"{path}: {sentence}."


def _scheme(uri: str) -> str:
    head, separator, _ = uri.partition("://")
    return f"{head}://" if separator else f"{uri.partition(':')[0]}:"


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))
