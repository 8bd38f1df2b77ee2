"""The files of a run: recorded traces, and arrays of inputs."""

from collections.abc import Mapping
from pathlib import Path

from inferometer_loadgen.requests.inputs import Array
from inferometer_loadgen.requests.npz_file import read_npz
from inferometer_loadgen.requests.trace import read_times, scaled_times
from inferometer_loadgen.schedule.arrivals import Offsets


class InputFiles:
    """The files of one run. A process reads each of them once, however often it is used."""

    def __init__(self) -> None:
        self._times: dict[Path, Offsets] = {}
        self._arrays: dict[Path, Mapping[str, Array]] = {}

    def arrivals(self, path: Path, milli_time_scale: int) -> Offsets:
        """Return the arrivals of a trace in nanoseconds, multiplied by a scale in thousandths.

        Raises TraceRefusedError if the file cannot be replayed.
        """
        if path not in self._times:
            self._times[path] = read_times(path)
        return scaled_times(path, self._times[path], milli_time_scale)

    def arrays(self, path: Path) -> Mapping[str, Array]:
        """Return the arrays of a .npz file; raises InputRefusedError if it cannot be read."""
        if path not in self._arrays:
            self._arrays[path] = read_npz(path)
        return self._arrays[path]
