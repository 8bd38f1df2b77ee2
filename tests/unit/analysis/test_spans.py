"""Parents of spans are found by interval and level."""

from inferometer_analysis.spans import Level, Span, with_parents

MODEL, LAYER, KERNEL = Level.MODEL, Level.LAYER, Level.KERNEL


def test_the_parent_contains_and_is_one_level_above() -> None:
    """A kernel belongs to the layer around it, never to the model."""
    spans = [
        Span(1, "predict", MODEL, 0, 100),
        Span(2, "conv", LAYER, 0, 60),
        Span(3, "relu", LAYER, 60, 100),
        Span(4, "gemm", KERNEL, 0, 60),
        Span(5, "max", KERNEL, 60, 70),
        Span(6, "late", KERNEL, 95, 101),
    ]
    found = with_parents(reversed(spans))
    assert {span.id: span.parent for span in found.spans} == {
        1: None,
        2: 1,
        3: 1,
        4: 2,
        5: 3,
        6: None,
    }
    assert found.orphans == (6,)
    assert not found.ambiguous


def test_parallel_layers_are_ambiguous() -> None:
    """A kernel within two layers that overlap has no parent, and is named."""
    spans = [
        Span(1, "a", LAYER, 0, 10),
        Span(2, "b", LAYER, 2, 12),
        Span(3, "k", KERNEL, 3, 4),
        Span(4, "l", KERNEL, 10, 12),
    ]
    found = with_parents(spans)
    assert found.ambiguous == (3,)
    assert {span.id: span.parent for span in found.spans if span.level is KERNEL} == {3: None, 4: 2}


def test_an_execution_has_the_parent_of_its_launch() -> None:
    """A kernel that runs after its layer belongs to the layer that launched it."""
    spans = [
        Span(1, "a", LAYER, 0, 10),
        Span(2, "b", LAYER, 10, 20),
        Span(3, "launch", KERNEL, 1, 2, correlation=7, is_launch=True),
        Span(4, "gemm", KERNEL, 12, 19, correlation=7),
    ]
    assert {span.id: span.parent for span in with_parents(spans).spans}[4] == 1
