"""Measures this node: `python -m inferometer_serving.node`.

It reports in lines of JSON on standard output, the last of which is the document itself:

* `{"event": "began", "names": [...], "document": {...}}`: what is measured, and the document
  without any figures;
* `{"event": "progress", "done": 3, "total": 20, "name": "pageFault"}` before each primitive;
* `{"event": "measured", "name": "pageFault", "figures": [...], "unavailable": {...}}` after it, so
  that its figures are not lost if a later primitive ends the process.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from uuid import uuid4

import orjson

from inferometer_api.document import Document
from inferometer_api.nodes.characteristics import NodeCharacteristics
from inferometer_api.nodes.document_size import within_bounds
from inferometer_api.nodes.figures import figure
from inferometer_api.nodes.fitness import MOST_STILL, MOST_STOLEN
from inferometer_api.nodes.wire_rates import LOOPBACK, WIRE_FIGURES, is_selected
from inferometer_api.timestamps import format_time
from inferometer_models.control_groups import cpu_limit
from inferometer_serving.node.allocations import allocation_probes
from inferometer_serving.node.gpu.probes import (
    TensorKernels,
    gpu_identities,
    gpu_probes,
    gpu_units,
)
from inferometer_serving.node.host_memory import memory_probes
from inferometer_serving.node.machine import (
    CpuTimes,
    cpu_times,
    machine_identity,
    other_cpu_share,
)
from inferometer_serving.node.pointer_chase import latency_probes
from inferometer_serving.node.punctuality import punctuality_probes
from inferometer_serving.node.samples import Findings, NodeProbe
from inferometer_serving.node.storage import storage_probes
from inferometer_serving.node.stream import stream_probes

_MOST_SECONDS = 180
_MOST_BUSY = 0.1
_EXIT_REFUSED = 2
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_STEAL = "steal"
"""A figure of every measurement: there is no probe of it."""


class UnknownPrimitiveError(ValueError):
    """No primitive has this name; the message is a sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print progress and document; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m inferometer_serving.node")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="Folder on the disk to measure.",
    )
    parser.add_argument(
        "--only", action="append", default=[], help="Begin of the name of a primitive or figure."
    )
    parser.add_argument("--most-seconds", type=int, default=_MOST_SECONDS)
    options = parser.parse_args(arguments)
    try:
        document = measure(options.folder, tuple(options.only), options.most_seconds)
    except UnknownPrimitiveError as error:
        sys.stderr.write(f"refused: {error}\n")
        return _EXIT_REFUSED
    sys.stdout.write(document.model_dump_json(by_alias=True, exclude_none=True) + "\n")
    return 0


def measure(folder: Path, only: tuple[str, ...], most_seconds: int) -> NodeCharacteristics:
    """Measure all primitives, or those whose names or figures begin so, for at most so long.

    Those of the wire are the load generator's to measure: their names are known and left out.

    Raises UnknownPrimitiveError if none begins as one of `only`.
    """
    kernels: dict[str, list[str]] = {}
    tensor_kernels: TensorKernels = {}
    probes = _selected(list(_probes(folder, kernels, tensor_kernels)), only)
    began, started_at = time.monotonic(), _now()
    idle, own_before = _idle_times(), _own_cpu_seconds()
    findings = Findings()
    document = NodeCharacteristics(
        id=uuid4().hex,
        inferometer_version=version("inferometer"),
        started_at=started_at,
        finished_at=started_at,
        machine=machine_identity().model_copy(update={"gpus": gpu_identities()}),
        figures=[],
    )
    names = [each.name for each in probes]
    _report({"event": "began", "names": names, "document": _json(document)})
    for done, probe in enumerate(probes):
        if time.monotonic() - began > most_seconds:
            findings.unavailable[probe.name] = f"the {most_seconds} s of the benchmark were over"
            continue
        _report({"event": "progress", "done": done, "total": len(probes), "name": probe.name})
        found = Findings()
        found.add(probe)
        findings.figures += found.figures
        findings.unavailable |= found.unavailable
        _report(
            {
                "event": "measured",
                "name": probe.name,
                "figures": [_json(each) for each in found.figures],
                "unavailable": found.unavailable,
            }
        )
    governor = _governor()
    if governor is None and not only:
        findings.unavailable["governor"] = "the kernel shows none, as in many virtual machines"
    cautions = _cautions(idle, cpu_times(), _own_cpu_seconds() - own_before, findings)
    if governor not in (None, "performance"):
        cautions.append(
            f"The CPUs' governor is {governor}: their frequency follows the load. The figures of "
            "governor performance may be higher."
        )
    from inferometer_serving.node.matrix import matrix_units  # noqa: PLC0415 - see _probes

    whole = document.model_copy(
        update={
            "finished_at": _now(),
            "figures": findings.figures,
            "matrix_units": [*matrix_units(kernels), *gpu_units(tensor_kernels)],
            "unavailable": findings.unavailable,
            "cautions": cautions,
        }
    )
    return within_bounds(whole)


def _probes(
    folder: Path, kernels: dict[str, list[str]], tensor_kernels: TensorKernels
) -> Iterator[NodeProbe]:
    yield from punctuality_probes()
    yield from stream_probes()
    yield from latency_probes()
    yield from memory_probes()
    yield from allocation_probes()
    yield from storage_probes(folder)
    yield from gpu_probes(tensor_kernels)
    # Last, because the engines keep threads.
    from inferometer_serving.node.matrix import matrix_probes  # noqa: PLC0415 - slow to import

    yield from matrix_probes(kernels)


def _selected(probes: Sequence[NodeProbe], only: Sequence[str]) -> list[NodeProbe]:
    for begin in only:
        of_wire = any(is_selected(each, (begin,)) for each in WIRE_FIGURES)
        if not (of_wire or _STEAL.startswith(begin) or any(each.has(begin) for each in probes)):
            names = {each.name.partition(" ")[0] for each in probes}
            names.update(name for each in probes for name in each.figures)
            names.update(WIRE_FIGURES[LOOPBACK])
            raise UnknownPrimitiveError(
                f"There is no primitive or figure whose name begins with {begin!r}. There are "
                f"{', '.join(sorted({*names, _STEAL}))}."
            )
    return [each for each in probes if not only or any(map(each.has, only))]


def _idle_times() -> tuple[CpuTimes, CpuTimes]:
    """Return the CPU times of the machine around a second in which nothing is measured."""
    before = cpu_times()
    time.sleep(1.0)
    return before, cpu_times()


def _own_cpu_seconds() -> float:
    """Return the CPU time of this process and of all its children that have ended."""
    used = [getrusage(each) for each in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _cautions(
    idle: tuple[CpuTimes, CpuTimes], after: CpuTimes, own_seconds: float, findings: Findings
) -> list[str]:
    """Return the conditions under which the figures hold.

    `idle` are the CPU times around a second before the measurement, which took `own_seconds`.
    """
    found = []
    busy = (idle[1].busy - idle[0].busy) / max(1, idle[1].total - idle[0].total)
    if busy > _MOST_BUSY:
        found.append(
            f"Before the measurement {busy:.0%} of the machine's CPU time was in use: the figures "
            "are those of a busy machine."
        )
    others = other_cpu_share(idle[1], after, own_seconds) - _stolen_share(idle[1], after)
    if others > _MOST_BUSY:
        found.append(
            f"During the measurement other processes took {others:.0%} of the machine's CPU time: "
            "the figures are those of a busy machine."
        )
    cpus, limit = len(os.sched_getaffinity(0)), cpu_limit()
    if limit is not None and limit < cpus:
        found.append(
            f"A quota limits the benchmark to the time of {limit:.2g} of {cpus} CPUs: the figures "
            "are those of the quota."
        )
    still = next((each for each in findings.figures if each.name == "jitter/share"), None)
    if still is not None and still.value > MOST_STILL:
        found.append(
            f"A running process stood still for {still.value:.0%} of the time: others, or a "
            "quota, had its CPU."
        )
    stolen = _stolen_share(idle[0], after)
    findings.figures.append(figure(_STEAL, "share", [max(0.0, stolen)]))
    if stolen > MOST_STOLEN:
        found.append(f"The hypervisor gave {stolen:.1%} of the CPU time to other guests.")
    return found


def _governor() -> str | None:
    """Return what decides the frequency of the CPUs; None if the kernel does not show it."""
    try:
        return _GOVERNOR.read_text().strip()
    except OSError:
        return None


def _stolen_share(before: CpuTimes, after: CpuTimes) -> float:
    return (after.stolen - before.stolen) / max(1, after.total - before.total)


def _json(document: Document) -> dict[str, object]:
    return document.model_dump(mode="json", by_alias=True, exclude_none=True)


def _report(event: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(event).decode() + "\n")
    sys.stdout.flush()


def _now() -> str:
    return format_time(datetime.now(UTC))


if __name__ == "__main__":
    sys.exit(main())
