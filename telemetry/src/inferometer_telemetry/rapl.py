"""Energy of the processor's packages and their memory (RAPL, in the powercap tree).

The zones are read where the kernel lists them all, below class/powercap: intel-rapl:N are packages
(AMD's too), intel-rapl:N:M their parts. Of the parts only "dram" is counted: core and uncore lie
within the package, psys round it. The same packages appear once more as intel-rapl-mmio:N.
Source: Documentation/power/powercap/powercap.rst and drivers/powercap/intel_rapl_common.c.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from inferometer_api.results.agent_sample import EnergyKind, EnergyReading, MissingSource
from inferometer_telemetry.counting import EnergyTotal
from inferometer_telemetry.kernel_files import (
    AbsentError,
    DeniedError,
    UnreadableError,
    number,
    text,
)

_ZONE = re.compile(r"intel-rapl:(\d+)(?::(\d+))?")
_LOOK_AGAIN_NS = 60 * 10**9
"""A driver may register its zones one after the other, and more when it is loaded later."""
_PACKAGE = re.compile(r"package-\d+(-die-\d+)?")


_ANEW = "its counter began anew, or was not read for so long that it may have wrapped around unseen"


@dataclass(frozen=True, slots=True)
class RaplReading:
    """One reading of all domains."""

    energy: list[EnergyReading] = field(default_factory=list)
    missing: list[MissingSource] = field(default_factory=list)
    goes_on: bool = True
    """Whether every total goes on from the reading before."""


@dataclass(frozen=True, slots=True)
class _Zone:
    domain: str
    kind: EnergyKind
    folder: Path
    energy: EnergyTotal


class Rapl:
    """The energy counters of this node's packages."""

    def __init__(self, sys_root: Path) -> None:
        self._folder = sys_root / "class/powercap"
        self._zones: dict[str, _Zone] = {}
        self._look_at_ns = 0
        self._nameless: list[MissingSource] = []

    def read(self, now_ns: int) -> RaplReading:
        """Return what each domain took since it was first read; `now_ns` is monotonic."""
        error = self._look(now_ns)
        if not self._zones and error is not None:
            return RaplReading(missing=[_missing("", self._why_none(error))])
        if not self._zones and not self._nameless:
            return RaplReading(missing=[_missing("", self._why_none(None))])
        found = RaplReading(missing=list(self._nameless))
        goes_on = True
        for zone in self._zones.values():
            try:
                reading = number(f"{zone.folder}/energy_uj")
            except UnreadableError as error:
                found.missing.append(_missing(zone.domain, _remedied(error)))
                continue
            if not zone.energy.take(reading, now_ns):
                goes_on = False
                found.missing.append(_missing(zone.domain, _ANEW))
            found.energy.append(_reading(zone))
        return RaplReading(found.energy, found.missing, goes_on)

    def _look(self, now_ns: int) -> OSError | None:
        """List the zones where that is due; return why they cannot be listed."""
        if self._zones and now_ns < self._look_at_ns:
            return None
        self._look_at_ns = now_ns + _LOOK_AGAIN_NS
        try:
            self._discover()
        except OSError as error:
            return error
        return None

    def _discover(self) -> None:
        """Add the zones that are not known yet: they count from now on."""
        self._nameless = []
        names: dict[int, str] = {}
        found = [_ZONE.fullmatch(entry.name) for entry in self._folder.iterdir()]
        zones = [(int(zone[1]), int(zone[2] or -1), zone[0]) for zone in found if zone]
        for package, part, folder in sorted(zones):
            try:
                name = text(self._folder / folder / "name").strip()
            except UnreadableError as error:
                self._nameless.append(_missing(folder, str(error)))
                continue
            if part == -1 and _PACKAGE.fullmatch(name):
                # Two of one name are two all the same: a domain's name is its own.
                names[package] = f"{name}-zone-{package}" if name in names.values() else name
                self._add(names[package], "Package", folder)
            elif part != -1 and name == "dram" and package in names:
                self._add(f"{names[package]}-dram", "Dram", folder)

    def _add(self, domain: str, kind: EnergyKind, folder: str) -> None:
        if folder in self._zones:
            return
        path = self._folder / folder
        try:
            range_microjoules = number(path / "max_energy_range_uj")
        except UnreadableError:
            range_microjoules = None
        self._zones[folder] = _Zone(domain, kind, path, EnergyTotal(range_microjoules))

    def _why_none(self, error: OSError | None) -> str:
        if isinstance(error, PermissionError):
            return f"{self._folder} may not be listed by user {os.geteuid()}"
        if error is not None and not isinstance(error, FileNotFoundError):
            return f"{self._folder} cannot be listed: {error.strerror}"
        found = "is absent" if error is not None else "has no package domain"
        return (
            f"the kernel offers no energy counters at {self._folder}, which {found}; virtual "
            "machines have none, on hardware load the module intel_rapl_msr"
        )


def _reading(zone: _Zone) -> EnergyReading:
    return EnergyReading(
        domain=zone.domain,
        kind=zone.kind,
        method="Counter",
        microjoules=zone.energy.microjoules,
    )


def _missing(subject: str, reason: str) -> MissingSource:
    return MissingSource(source="rapl", subject=subject, reason=reason)


def _remedied(error: UnreadableError) -> str:
    match error:
        case DeniedError():
            return (
                f"{error}, since the kernel lets only root read energy counters (CVE-2020-8694): "
                "run the agent as root"
            )
        case AbsentError():
            return f"{error}: its driver was unloaded"
        case _:
            return str(error)
