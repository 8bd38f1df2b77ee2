"""Where does a Prometheus on this machine find the processes of a local run?"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from inferometer_cli.exits import RefusedError
from inferometer_cli.terminal import tell

Component = Literal["server", "load generator", "node agent"]


class PrometheusTargets:
    """A file for Prometheus's file_sd_configs, which has what can be scraped just now.

    It is written beside and renamed, so that Prometheus never reads half of it.
    """

    def __init__(self, file: Path | None, run: str) -> None:
        self._file = file
        self._run = run
        self._addresses: dict[Component, str] = {}
        self._is_told = False

    @property
    def is_kept(self) -> bool:
        """Whether there is a file to keep."""
        return self._file is not None

    def __enter__(self) -> Self:
        """Write the file, without any address yet. Raises RefusedError where that cannot be."""
        try:
            self._write()
        except OSError as error:
            raise RefusedError(
                f"--prometheus-targets {self._file} cannot be written: {error.strerror}. Name a "
                "file in a folder that exists."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Take every address out: nothing listens there any more."""
        self._addresses.clear()
        try:
            self._write()
        except OSError:
            # The disk is full, or the folder gone: without the file nothing is scraped either.
            if self._file is not None:
                with suppress(OSError):
                    self._file.unlink()

    def add(self, component: Component, address: str) -> None:
        """Tell of one more process, by its HOST:PORT; a run goes on where that cannot be."""
        self._addresses[component] = address
        try:
            self._write()
        except OSError as error:
            if not self._is_told:
                tell(
                    f"inferometer: --prometheus-targets {self._file} cannot be written any more: "
                    f"{error.strerror}. The run goes on; Prometheus does not find all of it."
                )
            self._is_told = True

    def _write(self) -> None:
        if self._file is None:
            return
        groups = [
            {"targets": [address], "labels": {"component": component, "run": self._run}}
            for component, address in self._addresses.items()
        ]
        beside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(groups, indent=2) + "\n", encoding="utf-8")
            beside.replace(self._file)
        except OSError:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise
