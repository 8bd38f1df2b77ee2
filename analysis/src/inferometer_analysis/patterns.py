"""Repeated patterns of operators in models, such as convolution, normalisation, activation."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_LONGEST = 4


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """One operator of a graph with the names of its tensors."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Operators of which each is the only reader of the one before."""

    operators: tuple[str, ...]
    occurrences: int
    models: int
    """How many models have it."""

    @property
    def name(self) -> str:
        """The operators in order, joined by arrows."""
        return " → ".join(self.operators)


def repeated_patterns(
    models: Sequence[Sequence[OperatorNode]], longest: int = _LONGEST
) -> list[Pattern]:
    """Return the patterns of 2 to `longest` operators that occur at least twice in some models.

    A pattern within a longer one that occurs as often says nothing more, and is left out. The
    first are those that cover the most operators. Occurrences may overlap.
    """
    occurrences: Counter[tuple[str, ...]] = Counter()
    having: Counter[tuple[str, ...]] = Counter()
    for nodes in models:
        found = Counter(_sequences(nodes, longest))
        occurrences.update(found)
        having.update(found.keys())
    repeated = {key: count for key, count in occurrences.items() if count > 1}
    included = _within_as_frequent(repeated)
    patterns = [
        Pattern(key, count, having[key]) for key, count in repeated.items() if key not in included
    ]
    return sorted(
        patterns, key=lambda each: (-each.occurrences * len(each.operators), each.operators)
    )


def _sequences(nodes: Sequence[OperatorNode], longest: int) -> Iterator[tuple[str, ...]]:
    readers: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        for name in node.inputs:
            readers.setdefault(name, []).append(index)
    for index in range(len(nodes)):
        sequence = [nodes[index].operator]
        following = _only_reader(nodes[index], readers)
        while following is not None and len(sequence) < longest:
            sequence.append(nodes[following].operator)
            yield tuple(sequence)
            following = _only_reader(nodes[following], readers)


def _only_reader(node: OperatorNode, readers: Mapping[str, list[int]]) -> int | None:
    found = {reader for name in node.outputs for reader in readers.get(name, ())}
    return found.pop() if len(found) == 1 else None


def _within_as_frequent(counts: Mapping[tuple[str, ...], int]) -> set[tuple[str, ...]]:
    """Return the patterns at either end of a longer one that occurs as often."""
    return {
        part
        for key, count in counts.items()
        for part in (key[1:], key[:-1])
        if counts.get(part) == count
    }
