"""What each repeat begins anew is decided before a run starts."""

from typing import Any

import pytest

from inferometer_api.spec.resolve import fill_defaults, restarts_server
from inferometer_api.spec.run import BenchmarkRun
from support.runs import Run, a_run, an_external_run


@pytest.mark.parametrize(
    ("run", "validity", "scope", "restarts"),
    [
        (a_run(), {}, None, False),
        (a_run(), {"repeats": 2}, "Server", True),
        (a_run(), {"repeats": 2, "repeatScope": "Load"}, "Load", False),
        (a_run(), {"repeatScope": "Server"}, "Server", False),
        (an_external_run(), {"repeats": 2}, "Load", False),
    ],
    ids=["one repeat", "launched", "of the load", "one repeat of the server", "External"],
)
def test_launched_servers_are_restarted_by_default(
    run: Run, validity: dict[str, Any], scope: str | None, *, restarts: bool
) -> None:
    """A resolved run says so, and resolving it again changes nothing."""
    run = {**run, "spec": {**run["spec"], "validity": validity}}
    resolved = fill_defaults(BenchmarkRun.model_validate(run))
    assert resolved.spec.validity.repeat_scope == scope
    assert restarts_server(resolved.spec) is restarts
    assert fill_defaults(resolved) == resolved
