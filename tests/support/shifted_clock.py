"""A clock of its own for a process, which a test can set while the process runs."""

import shutil
import struct
import subprocess
from pathlib import Path

from support.requirements import cannot_run

_SOURCE = Path(__file__).with_suffix(".c")


class ShiftedClock:
    """The real time and some seconds more, for the processes that get `environment`."""

    def __init__(self, folder: Path, seconds: int = 0) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            cannot_run("the shifted clock is compiled, and there is no C compiler here")
        self.seconds = seconds
        self._file = folder / "clock.shift"
        self._file.write_bytes(struct.pack("=q", seconds))
        library = folder / "shifted_clock.so"
        words = (compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
        subprocess.run([*words, "-o", library, _SOURCE], check=True)
        self.environment = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(self._file)}

    def set(self, seconds: int) -> None:
        """Let it be so many seconds ahead from now on."""
        self.seconds = seconds
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))
