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
        (a_run(scenarios=[{"name": "a", "coldStart": {}}]), {}, "Server", True),
    ],
    ids=["one repeat", "launched", "of the load", "one repeat of the server", "External", "cold"],
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


def test_a_cold_start_sets_the_fewest_repeats() -> None:
    """All scenarios of its run are repeated as often as it; more repeats stay."""
    scenarios = [{"name": "a", "coldStart": {"repeats": 3}}, {"name": "b", "singleStream": {}}]

    def repeats(**validity: int) -> int:
        run = BenchmarkRun.model_validate(a_run(scenarios=scenarios, validity=validity))
        return fill_defaults(run).spec.validity.repeats

    assert (repeats(), repeats(repeats=2), repeats(repeats=4)) == (3, 3, 4)
