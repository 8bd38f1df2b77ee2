"""A delay that is planted at a rung of the overhead ladder is attributed to it."""

from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from inferometer_analysis.overhead import ladder
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.run import BenchmarkRun
from inferometer_cli.exits import deferred_signals
from inferometer_cli.local.measurement import measure
from inferometer_cli.local.rungs import behind, measure_in_turn
from support.oracle_process import oracle_process

US = 1_000
DELAY_US = 500
ROUNDS = 4


@pytest.mark.parametrize("planted", [1, 2])
def test_a_delay_is_attributed_to_its_rung(
    note: Callable[[str], None],
    require_quiet: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    planted: int,
) -> None:
    """Of three servers one answers 500 us later than the one below it: found within 10 %."""
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        ending = stack.enter_context(deferred_signals())

        def measured(run: BenchmarkRun) -> ResultDocument:
            return measure(run, tmp_path, ending, watch=lambda _: None)

        rungs = []
        for place in range(3):
            oracle = stack.enter_context(oracle_process())
            oracle.obey([5_000 * US + DELAY_US * US * (place >= planted)])
            rungs.append(behind(f"rung {place}", oracle.url("HTTP"), "oracle", 1, measured))
        pairs = [measure_in_turn(*pair, ROUNDS, print) for pair in pairwise(rungs)]
        ends = measure_in_turn(rungs[0], rungs[-1], ROUNDS, print)
    found = ladder([each.name for each in rungs], pairs, ends)
    added = [each.added / US for each in found.steps]
    note(f"planted at rung {planted}: {added} us")
    require_quiet()
    assert added[planted - 1] == pytest.approx(DELAY_US, rel=0.1)
    # Two servers that are alike differ by no more than their rounds do.
    other = found.steps[2 - planted]
    assert abs(other.added) <= max(DELAY_US / 10 * US, other.margin)
    assert abs(found.gap) <= 0.05 * found.whole
    assert found.outcome != "does not close"
