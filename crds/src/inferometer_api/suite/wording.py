"""The outcome of a suite's gate in sentences."""

from collections.abc import Iterator

from inferometer_api.suite.anchor import ARMING_PAIRS
from inferometer_api.suite.status import GateStatus, JudgedCell

_JUDGED = "The figures are the rate and the median latency of each step of each scenario."
_NAMES = {"qps": "the rate", "p50": "the median latency"}


def gate_word(gate: GateStatus | None) -> str:
    """Return the outcome of a gate in a word or two, empty without one."""
    if gate is None:
        return ""
    return gate.outcome if gate.armed else f"{gate.outcome} (advisory)"


def gate_sentence(gate: GateStatus) -> str:
    """Return what the gate decided, in one sentence, and the least change that it finds."""
    found = {
        "PASS": f"None of {gate.judged} figures is slower than the baseline. {_JUDGED}",
        "FAIL": (
            f"{_slower_count(gate)} of {gate.judged} figures are slower than the baseline. "
            f"{_JUDGED}"
        ),
        "INCONCLUSIVE": f"It is not shown that none of {gate.judged} figures is slower.",
        "CouldNotRun": "The comparison with the baseline could not be made.",
    }[gate.outcome]
    if gate.detectable_parts_per_million is None:
        return found
    return (
        f"{found} A slow-down of {gate.detectable_parts_per_million / 10_000:.1f} % is found with "
        "a probability of 80 % in every figure, if runs scatter as these do."
    )


def gate_sentences(gate: GateStatus) -> Iterator[str]:
    """Yield the reasons of a gate's outcome, the figures that are slower first."""
    if not gate.armed:
        yield (
            f"The gate is advisory: it decides once {ARMING_PAIRS} A/A pairs of the anchor exist "
            "on each class of nodes on which its runs were."
        )
    yield from map(_slower, gate.slower)
    if more := _slower_count(gate) - len(gate.slower):
        yield f"And {more} more figures are slower."
    yield from gate.reasons
    if gate.invalid_blocks:
        blocks = ", ".join(gate.invalid_blocks)
        yield (
            "Blocks that do not count, because their two runs of the anchor drifted apart, are not "
            f"both VALID, or were on two nodes: {blocks}."
        )


def _slower_count(gate: GateStatus) -> int:
    return len(gate.slower) if gate.slower_count is None else gate.slower_count


def _slower(each: JudgedCell) -> str:
    change = each.ratio_parts_per_million / 10_000 - 100
    low, high = (
        part / 10_000 - 100 for part in (each.low_parts_per_million, each.high_parts_per_million)
    )
    place = ", ".join(filter(None, (each.cell, each.scenario, each.step)))
    return (
        f"{place}: {_NAMES.get(each.figure, each.figure)} changed by "
        f"{change:+.1f} % ({low:+.1f} to {high:+.1f} %)."
    )
