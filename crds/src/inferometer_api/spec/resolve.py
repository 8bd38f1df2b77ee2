"""Computed defaults of a run, and whole numbers of quantities."""

import re

from inferometer_api import patterns
from inferometer_api.spec.run import BenchmarkRun, RunSpec
from inferometer_api.spec.server import MAXIMUM_THREADS, Gpu


def fill_defaults(run: BenchmarkRun) -> BenchmarkRun:
    """Return the run with every computed default filled in; a resolved run stays as it is.

    Plain defaults stand in the models already. Computed are `threads` (whole CPUs of the limit
    less one, from 1 to 1024), `gpu` (one nvidia.com/gpu with device GPU), `repeats` (at least those
    of a cold start) and, of several repeats, `repeatScope`. An External server has settings of its
    own, so that nothing is filled in there.
    """
    run = _with_repeat_scope(_with_cold_starts(run))
    server = run.spec.server
    if not is_launched(run.spec):
        return run
    spare = whole_cpus(server.resources.cpu) - 1
    threads = server.threads or min(max(1, spare), MAXIMUM_THREADS)
    gpu = Gpu() if server.device == "GPU" and server.gpu is None else server.gpu
    filled = server.model_copy(update={"threads": threads, "gpu": gpu})
    return run.model_copy(update={"spec": run.spec.model_copy(update={"server": filled})})


def _with_cold_starts(run: BenchmarkRun) -> BenchmarkRun:
    spec = run.spec
    starts = (each.cold_start.repeats for each in spec.scenarios if each.cold_start is not None)
    repeats = max([spec.validity.repeats, *starts])
    if repeats == spec.validity.repeats:
        return run
    validity = spec.validity.model_copy(update={"repeats": repeats})
    return run.model_copy(update={"spec": spec.model_copy(update={"validity": validity})})


def _with_repeat_scope(run: BenchmarkRun) -> BenchmarkRun:
    spec = run.spec
    if spec.validity.repeats == 1 or spec.validity.repeat_scope is not None:
        return run
    scope = "Server" if is_launched(spec) else "Load"
    validity = spec.validity.model_copy(update={"repeat_scope": scope})
    return run.model_copy(update={"spec": spec.model_copy(update={"validity": validity})})


def restarts_server(spec: RunSpec) -> bool:
    """Return whether the server of a resolved run is restarted between its repeats."""
    return spec.validity.repeats > 1 and spec.validity.repeat_scope == "Server"


def is_launched(spec: RunSpec) -> bool:
    """Return whether Inferometer starts the server, rather than measure what serves already."""
    return spec.server.external is None


def whole_cpus(quantity: str) -> int:
    """Return how many whole CPUs a quantity has: 2 for "2", "2.5" and "2500m"."""
    if quantity.endswith("m"):
        return int(quantity.removesuffix("m")) // 1000
    return int(quantity.partition(".")[0])


_SIZES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def whole_bytes(quantity: str) -> int:
    """Return the bytes of a whole quantity: 2147483648 for "2Gi".

    `quantity` is a MemoryQuantity of the documents, whose pattern has been checked.
    """
    digits = quantity.rstrip("kKMGTi")
    return int(digits) * _SIZES[quantity.removeprefix(digits)]


def read_bytes_above_zero(text: str) -> int:
    """Return the bytes of a quantity that was typed; raises ValueError if it is none, or 0."""
    if not re.fullmatch(patterns.MEMORY, text):
        raise ValueError(f"{text!r} is no size above 0, such as 20Gi")
    return whole_bytes(text)
