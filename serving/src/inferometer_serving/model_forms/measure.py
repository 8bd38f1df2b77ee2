"""Opens a form of a model in fresh processes, and measures time and memory."""

import json
import mmap
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from inferometer_serving.model_forms.forms import ModelForm
from inferometer_serving.node.samples import NotMeasurableError, seconds_of
from inferometer_serving.node.storage import storage_probes

Figures = dict[str, float]
_SHARES = 20
"""How often an object is exported and opened; the medians count."""
_REFERENCE = bytes(64)


@dataclass(frozen=True, slots=True)
class Probing:
    """How each process opens and runs the model."""

    threads: int = 1
    runs: int = 20
    """Inferences after the first, whose median is the steady latency."""
    servers: int = 3
    """How many processes share the memory."""


def open_alone(form: ModelForm, given: Probing) -> Figures:
    """Return what one fresh process takes to open and run the model."""
    with _start_probe(form, given) as process:
        return _figures(process)


def added_bytes(form: ModelForm, given: Probing) -> tuple[float, float]:
    """Return what each further server takes, and the slowest load of all of them at once."""
    with _start_probe(form, given) as process:
        _figures(process)
        one = _pss_bytes([process])
    with ExitStack() as stack:
        several = [stack.enter_context(_start_probe(form, given)) for _ in range(given.servers)]
        loads = [_figures(each)["loadMilliseconds"] for each in several]
        all_of_them = _pss_bytes(several)
    return (all_of_them - one) / (given.servers - 1), max(loads)


@contextmanager
def _start_probe(form: ModelForm, given: Probing) -> Iterator["subprocess.Popen[bytes]"]:
    words = [
        *(sys.executable, "-m", "inferometer_serving.model_forms.probe", str(form.model)),
        *("--prepacking", "on" if form.prepacking else "off"),
        *("--graph-optimization", form.graph_optimization),
        *("--threads", str(given.threads), "--runs", str(given.runs)),
    ]
    with subprocess.Popen(  # noqa: S603 - words of our own
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()


def _figures(process: "subprocess.Popen[bytes]") -> Figures:
    line = b"" if process.stdout is None else process.stdout.readline()
    if not line:
        raise RuntimeError("A process that opened the model ended early; its message is above.")
    figures: Figures = json.loads(line)
    return figures


def _pss_bytes(processes: Sequence["subprocess.Popen[bytes]"]) -> int:
    """Return the memory of processes, each shared page divided among those who share it."""
    total = 0
    for each in processes:
        lines = Path(f"/proc/{each.pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def write_tiny(folder: Path) -> ModelForm:
    """Write a model without weights, whose servers take what every server takes."""

    def value(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])

    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "tiny", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, folder / "tiny.onnx")
    return ModelForm("Tiny", folder / "tiny.onnx")


def sharing_constants(form: ModelForm, folder: Path) -> dict[str, float | str]:
    """Return what decides whether sharing a model pays on this node, or why that is not known.

    They are the rate of a read from the disk of `folder`; the time to export an object, which is to
    write its reference to the disk as the node's cache does; and the time to open one, which is to
    map a file whose pages are in memory.
    """
    try:
        figures = {
            figure.name: figure for probe in storage_probes(folder) for figure in probe.measure()
        }
    except (NotMeasurableError, OSError) as error:
        return {"unavailable": str(error).rstrip(".")}
    reference = folder / "reference"
    exports = [seconds_of(lambda: _export(reference)) for _ in range(_SHARES)]
    reference.unlink()
    opens = [seconds_of(lambda: _map(form.model)) for _ in range(_SHARES)]
    return {
        "diskBytesPerSecond": figures["disk/read"].value,
        "exportMilliseconds": statistics.median(exports) * 1e3,
        "openMilliseconds": statistics.median(opens) * 1e3,
    }


def _export(file: Path) -> None:
    with file.open("wb") as opened:
        opened.write(_REFERENCE)
        opened.flush()
        os.fsync(opened.fileno())


def _map(file: Path) -> None:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ):
        pass
