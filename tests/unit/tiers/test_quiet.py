"""A disturbed machine is reported with the figure, and a missing tool fails where CI=true."""

import pytest

from support.quiet import Readings, disturbance, read_counters
from support.requirements import cannot_run

QUIET = Readings(at=100.0, waiting=5.0, run_delay=1.0, steal=2.0, others=50.0)


def after(**changed: float | None) -> Readings:
    """Return the counters ten seconds later."""
    values = {"waiting": 5.05, "run_delay": 1.01, "steal": 2.0, "others": 70.0} | changed
    return Readings(at=110.0, **values)  # type: ignore[arg-type]  # mypy sees a union


def test_an_idle_machine_is_quiet() -> None:
    """Half a percent of waiting is what a test's own processes cause."""
    assert disturbance(QUIET, after()) is None


@pytest.mark.parametrize(
    ("changed", "figure"),
    [
        ({"waiting": 11.0}, "others kept tasks waiting 60.0%"),
        ({"run_delay": 2.5}, "others kept this process waiting 15.0%"),
        ({"steal": 1002.0}, "the hypervisor took"),
    ],
)
def test_a_disturbance_is_named_with_its_figure(changed: dict[str, float], figure: str) -> None:
    """Each of the three counters can make a window inconclusive."""
    found = disturbance(QUIET, after(**changed))
    assert found is not None
    assert figure in found
    assert "of 10.0 s" in found


def test_what_tasks_of_a_test_wait_for_each_other_is_no_disturbance() -> None:
    """Others cannot have caused more waiting than the CPU time that they took."""
    busy = {"waiting": 11.0, "run_delay": 2.5}
    assert disturbance(QUIET, after(**busy, others=50.1)) is None
    found = disturbance(QUIET, after(**busy, others=51.0))
    assert found is not None
    assert "others kept tasks waiting 10.0%" in found


def test_a_kernel_without_pressure_counters_is_judged_by_the_others() -> None:
    """PSI may be switched off."""
    assert disturbance(QUIET, after(waiting=None)) is None
    assert disturbance(QUIET, after(waiting=None, run_delay=9.0)) is not None


def test_the_counters_of_this_machine_are_readable() -> None:
    """They rise with time."""
    first, second = read_counters(), read_counters()
    assert first.at <= second.at
    assert first.steal <= second.steal


def test_a_missing_tool_skips_a_test_and_fails_it_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI=true a tier that cannot run is an error."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no compiler"):
        cannot_run("no compiler")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="every tier must run: no compiler"):
        cannot_run("no compiler")
