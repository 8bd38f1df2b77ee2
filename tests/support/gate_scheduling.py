"""Distributes the gate's tests to the workers of pytest-xdist."""

from fnmatch import fnmatch

from typing_extensions import override
from xdist.scheduler import (  # type: ignore[import-untyped]  # ships no types
    LoadScopeScheduling,
)

TOGETHER = (
    "tests/cluster/*",
    "tests/local/*",
    "tests/api/test_operator_server_faults.py",
    "tests/api/test_operator_kueue.py",
    "tests/api/test_chart_definitions.py",
    "tests/api/test_chart_prometheus_operator.py",
    "tests/contract/test_chart_objects.py",
)
"""Files of the gate whose tests share what takes seconds to start: one worker runs all of them."""


class GateScheduling(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out tests one by one, and at once those of a file that share a server or a cluster.

    The package's own `loadgroup` does not see its marks under pytest 9.2.
    """

    @override
    def _split_scope(self, nodeid: str) -> str:
        """Return what names the tests that run on the same worker."""
        file = nodeid.partition("::")[0]
        return file if any(fnmatch(file, each) for each in TOGETHER) else nodeid
