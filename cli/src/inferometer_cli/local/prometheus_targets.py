"""Scrape targets of a local run, in a file for a Prometheus on this machine."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self

from inferometer_cli.exits import RefusedError
from inferometer_cli.terminal import print_message

Component = Literal["server", "load generator", "node agent"]


class PrometheusTargets:
    """A file for Prometheus's file_sd_configs that lists what can be scraped at the moment.

    It is written under another name and renamed, so that Prometheus never reads half of it.
    """

    def __init__(self, file: Path | None, run: str) -> None:
        self._file = file
        self._run = run
        self._addresses: dict[Component, str] = {}
        self._is_reported = False

    @property
    def is_enabled(self) -> bool:
        """Whether there is a file to write."""
        return self._file is not None

    def __enter__(self) -> Self:
        """Write the file, still without addresses. Raises RefusedError if that fails."""
        try:
            self._write()
        except OSError as error:
            raise RefusedError(
                f"Cannot write --prometheus-targets {self._file}: {error.strerror}. Give a file "
                "in an existing directory."
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Remove every address, because the processes have ended."""
        self._addresses.clear()
        try:
            self._write()
        except OSError:
            # The disk is full or the directory is gone. Without the file nothing is scraped either.
            if self._file is not None:
                with suppress(OSError):
                    self._file.unlink()

    def add(self, component: Component, address: str) -> None:
        """Add the HOST:PORT of a process; if the file cannot be written, report it once."""
        self._addresses[component] = address
        try:
            self._write()
        except OSError as error:
            if not self._is_reported:
                print_message(
                    f"inferometer: Cannot update --prometheus-targets {self._file}: "
                    f"{error.strerror}. The run continues, but Prometheus misses some processes."
                )
            self._is_reported = True

    def _write(self) -> None:
        if self._file is None:
            return
        groups = [
            {"targets": [address], "labels": {"component": component, "run": self._run}}
            for component, address in self._addresses.items()
        ]
        sibling = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            sibling.write_text(json.dumps(groups, indent=2) + "\n", encoding="utf-8")
            sibling.replace(self._file)
        except OSError:
            with suppress(OSError):
                sibling.unlink(missing_ok=True)
            raise
