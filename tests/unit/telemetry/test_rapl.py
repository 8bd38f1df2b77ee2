"""The energy of packages and their memory is counted once, and gaps are reported."""

import os
from pathlib import Path

import pytest

from inferometer_telemetry.rapl import Rapl, RaplReading
from support.recorded_node import RANGE_MICROJOULES, RecordedNode
from support.recorded_pods import write

SECOND = 10**9


def joules(found: RaplReading) -> dict[str, float]:
    """Return what each domain took."""
    joules_of = {reading.domain: reading.microjoules / 1e6 for reading in found.energy}
    assert len(joules_of) == len(found.energy), "a domain is reported twice"
    return joules_of


def test_packages_and_their_memory_are_counted_once_each(tmp_path: Path) -> None:
    """Of two packages both and their dram count; core, psys and the mmio twin do not."""
    node = RecordedNode(tmp_path, packages=2)
    rapl = Rapl(node.sys_root)
    first = rapl.read(0)
    assert set(joules(first).values()) == {0.0}
    node.advance(
        joules={"package-0": 120.5, "package-0-dram": 10.25, "package-1": 80, "psys": 500}
        | {"package-0-mmio": 120.5, "package-0-core": 60}
    )
    found = rapl.read(SECOND)
    assert joules(found) == {
        "package-0": 120.5,
        "package-0-dram": 10.25,
        "package-1": 80.0,
        "package-1-dram": 0.0,
    }
    assert {reading.domain: reading.kind for reading in found.energy} == {
        "package-0": "Package",
        "package-0-dram": "Dram",
        "package-1": "Package",
        "package-1-dram": "Dram",
    }
    assert {reading.method for reading in found.energy} == {"Counter"}
    assert found.missing == []


def test_a_wrap_around_is_undone(tmp_path: Path) -> None:
    """Joules are right while the counter passes its range."""
    node = RecordedNode(tmp_path, begin_joules=RANGE_MICROJOULES / 1e6 - 100)
    rapl = Rapl(node.sys_root)
    rapl.read(0)
    node.advance(joules={"package-0": 350})
    assert joules(rapl.read(SECOND))["package-0"] == 350.0
    assert int((node.powercap("intel-rapl:0") / "energy_uj").read_text()) == 250_000_000


def test_a_counter_that_began_anew_ends_the_total(tmp_path: Path) -> None:
    """Readings from before a driver was reloaded are not comparable, and the reading says so."""
    node = RecordedNode(tmp_path, begin_joules=100_000)
    rapl = Rapl(node.sys_root)
    assert rapl.read(0).goes_on
    write(node.powercap("intel-rapl:0") / "energy_uj", "17\n")
    found = rapl.read(SECOND)
    assert not found.goes_on
    assert [missing.subject for missing in found.missing] == ["package-0"]


def test_counters_for_root_only_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A counter that may not be read is missing with the remedy; the others go on."""
    node = RecordedNode(tmp_path)
    denied = str(node.powercap("intel-rapl:0") / "energy_uj")
    opened = os.open

    def guarded(path: str, flags: int) -> int:
        if str(path) == denied:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", guarded)
    found = Rapl(node.sys_root).read(0)
    assert list(joules(found)) == ["package-0-dram"]
    (missing,) = found.missing
    assert (missing.source, missing.subject) == ("rapl", "package-0")
    assert "run the agent as root" in missing.reason


@pytest.mark.parametrize("content", ["12345", "", "garbage\n", "-5\n", "9" * 30 + "\n", "1.5\n"])
def test_what_is_no_number_is_no_energy(content: str, tmp_path: Path) -> None:
    """Garbage or a cut off counter is missing for one reading and loses nothing after it."""
    node = RecordedNode(tmp_path)
    rapl = Rapl(node.sys_root)
    rapl.read(0)
    path = node.powercap("intel-rapl:0") / "energy_uj"
    good = path.read_text()
    write(path, content)
    hiccup = rapl.read(SECOND)
    assert list(joules(hiccup)) == ["package-0-dram"]
    assert [missing.subject for missing in hiccup.missing] == ["package-0"]
    assert hiccup.goes_on
    write(path, good)
    node.advance(joules={"package-0": 42})
    assert joules(rapl.read(2 * SECOND))["package-0"] == 42.0


def test_a_machine_without_counters_is_reported(tmp_path: Path) -> None:
    """No powercap tree: one reason, no energy; a driver that is loaded later counts from then."""
    rapl = Rapl(tmp_path / "sys")
    (missing,) = rapl.read(0).missing
    assert missing.subject == ""
    assert "virtual machines have none" in missing.reason
    node = RecordedNode(tmp_path)
    rapl.read(SECOND)
    node.advance(joules={"package-0": 7})
    assert joules(rapl.read(2 * SECOND))["package-0"] == 7.0


def test_a_zone_that_comes_late_counts_from_then_on(tmp_path: Path) -> None:
    """The tree is listed again each minute; the domains that were there go on."""
    node = RecordedNode(tmp_path / "node", packages=2)
    late = node.powercap("intel-rapl:1")
    late.rename(tmp_path / "late")
    rapl = Rapl(node.sys_root)
    assert set(joules(rapl.read(0))) == {"package-0", "package-0-dram"}
    (tmp_path / "late").rename(late)
    node.advance(joules={"package-0": 5, "package-1": 1})
    assert "package-1" not in joules(rapl.read(59 * SECOND))
    assert joules(rapl.read(60 * SECOND)) == {
        "package-0": 5.0,
        "package-0-dram": 0.0,
        "package-1": 0.0,
        "package-1-dram": 0.0,
    }
    node.advance(joules={"package-0": 5, "package-1": 7})
    found = rapl.read(61 * SECOND)
    assert (joules(found)["package-0"], joules(found)["package-1"]) == (10.0, 7.0)
    assert found.goes_on


def test_a_counter_unread_for_minutes_starts_again(tmp_path: Path) -> None:
    """An agent that stood still reports a gap instead of a guess."""
    node = RecordedNode(tmp_path)
    rapl = Rapl(node.sys_root)
    rapl.read(0)
    node.advance(joules={"package-0": 80_000})
    found = rapl.read(263 * SECOND)
    assert not found.goes_on
    assert "not read for so long" in found.missing[0].reason


def test_a_tree_without_packages_is_reported(tmp_path: Path) -> None:
    """A tree with psys alone gives a reason, since psys is more than the processor."""
    zone = tmp_path / "class/powercap/intel-rapl:0"
    write(zone / "name", "psys\n")
    write(zone / "energy_uj", "5\n")
    found = Rapl(tmp_path).read(0)
    assert found.energy == []
    assert "no package domain" in found.missing[0].reason


def test_dies_of_a_package_are_domains_of_their_own(tmp_path: Path) -> None:
    """Several dies in one package are distinguished by the kernel's names."""
    for die in range(2):
        zone = tmp_path / f"class/powercap/intel-rapl:{die}"
        write(zone / "name", f"package-0-die-{die}\n")
        write(zone / "energy_uj", "5\n")
    assert list(joules(Rapl(tmp_path).read(0))) == ["package-0-die-0", "package-0-die-1"]


def test_packages_of_one_name_are_both_counted(tmp_path: Path) -> None:
    """Two packages that a kernel calls alike have names of their own."""
    for package in range(2):
        zone = tmp_path / f"class/powercap/intel-rapl:{package}"
        write(zone / "name", "package-0\n")
        write(zone / "energy_uj", "5\n")
    assert list(joules(Rapl(tmp_path).read(0))) == ["package-0", "package-0-zone-1"]
