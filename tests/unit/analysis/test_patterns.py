"""Chains of operators are counted wherever each is the only reader of the one before."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inferometer_analysis.patterns import OperatorNode, Pattern, repeated_patterns


def _chain(*operators: str, prefix: str = "t") -> list[OperatorNode]:
    names = [f"{prefix}{index}" for index in range(len(operators) + 1)]
    return [
        OperatorNode(operator, (before,), (after,))
        for operator, (before, after) in zip(operators, pairwise(names), strict=True)
    ]


def test_a_block_that_repeats_is_one_pattern_with_its_count_over_models() -> None:
    """Its parts occur as often, and are left out."""
    block = ("Conv", "BatchNormalization", "Relu")
    first = [*_chain(*block, prefix="a"), *_chain(*block, prefix="b")]
    assert repeated_patterns([first, _chain(*block)]) == [Pattern(block, 3, 2)]


def test_a_part_that_occurs_more_often_than_its_block_is_a_pattern_too() -> None:
    """The one that covers the most operators is first."""
    models = [
        _chain("Conv", "BatchNormalization", "Relu"),
        _chain("Conv", "BatchNormalization", "Relu"),
        _chain("Conv", "BatchNormalization", "Add"),
    ]
    assert repeated_patterns(models) == [
        Pattern(("Conv", "BatchNormalization"), 3, 3),
        Pattern(("Conv", "BatchNormalization", "Relu"), 2, 2),
    ]


def test_an_output_with_two_readers_ends_a_chain() -> None:
    """It cannot be fused away."""
    branched = [
        OperatorNode("Conv", ("x",), ("y",)),
        OperatorNode("Relu", ("y",), ("z",)),
        OperatorNode("Add", ("y", "z"), ("out",)),
    ]
    assert repeated_patterns([branched, branched]) == [Pattern(("Relu", "Add"), 2, 2)]


def test_an_operator_that_reads_its_only_source_twice_continues_the_chain() -> None:
    """Mul of a tensor by itself has one reader."""
    squared = [OperatorNode("Conv", ("x",), ("y",)), OperatorNode("Mul", ("y", "y"), ("z",))]
    assert repeated_patterns([squared, squared]) == [Pattern(("Conv", "Mul"), 2, 2)]


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=12), max_size=4),
    st.integers(min_value=2, max_value=5),
)
def test_counts_are_those_of_all_windows_of_plain_chains(
    words: list[list[str]], longest: int
) -> None:
    """A plain chain has a window of each length at each place."""
    found = repeated_patterns([_chain(*each) for each in words], longest)
    for pattern in found:
        length = len(pattern.operators)
        windows = [
            [tuple(word[start : start + length]) for start in range(len(word) - length + 1)]
            for word in words
        ]
        assert pattern.occurrences == sum(each.count(pattern.operators) for each in windows) > 1
        assert pattern.models == sum(pattern.operators in each for each in windows)
        assert 2 <= length <= longest
