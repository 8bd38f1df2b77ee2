"""Which monotonic clock does this process read?"""

from pathlib import Path

from inferometer_loadgen.fleet.clock import ClockName


def own_clock() -> ClockName:
    """Return the clock's name; without a boot where the machine does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return ClockName(boot, str(Path("/proc/self/ns/time").readlink()))
    except OSError:
        return ClockName("", "")
