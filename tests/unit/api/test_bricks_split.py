"""Models are cut into bricks of at most G layers, and equal bricks are one."""

from hypothesis import given
from hypothesis import strategies as st

from inferometer_api.layers.split import compose_suite, default_granularity, split
from support.layer_graphs import layer_graph


def test_with_one_layer_a_brick_each_layer_is_a_brick_in_its_order() -> None:
    """G=1 gives as many bricks as layers."""
    graph = layer_graph(("Conv", [0], [1]), ("Relu", [1], [2]), ("Conv", [2], [3]))
    assert [use.key for use in split(graph, 1)] == ["Conv", "Relu", "Conv"]


def test_a_chain_is_cut_into_pieces_of_at_most_g_layers() -> None:
    """Five layers in a row with G=2 are bricks of 2, 2 and 1: none is left out between them."""
    graph = layer_graph(*((name, [at], [at + 1]) for at, name in enumerate("abcde")))
    assert [use.brick.layers for use in split(graph, 2)] == [["a", "b"], ["c", "d"], ["e"]]


def test_a_branch_ends_a_brick() -> None:
    """A tensor that two layers read, or a layer that reads two of them, makes no simple path."""
    graph = layer_graph(
        ("a", [0], [1]), ("b", [1], [2]), ("c", [2], [3]), ("Add", [3, 1], [4]), ("d", [4], [5])
    )
    assert [use.brick.layers for use in split(graph, 4)] == [["a"], ["b", "c", "Add", "d"]]


def test_a_layer_that_reads_a_tensor_twice_ends_the_brick_before_it() -> None:
    """Mul(x, x) after x would need two inputs from one chain."""
    graph = layer_graph(("a", [0], [1]), ("Mul", [1, 1], [2]))
    assert [use.brick.layers for use in split(graph, 4)] == [["a"], ["Mul"]]


def test_a_brick_says_which_input_takes_the_tensor_of_its_chain() -> None:
    """The second input of Add continues the chain."""
    graph = layer_graph(("a", [0], [1]), ("Add", [9, 1], [2]))
    (use,) = split(graph, 2)
    assert use.brick.feeds == [1]
    assert use.inputs == {0, 9}
    assert use.outputs == {2}


def test_equal_bricks_of_all_models_are_one() -> None:
    """Two models that share a layer need three bricks for four layers."""
    first = layer_graph(("Conv", [0], [1]), ("Relu", [1], [2]), model="first")
    second = layer_graph(("Conv", [0], [1]), ("Gelu", [1], [2]), model="second")
    assert set(compose_suite([first, second], 1).bricks) == {"Conv", "Relu", "Gelu"}


def test_an_exported_suite_does_not_depend_on_the_order_of_models_and_has_no_names() -> None:
    """What leaves the house shows neither names nor an order."""
    first = layer_graph(("Conv", [0], [1]), ("Relu", [1], [2]), model="secret-one")
    second = layer_graph(("Gelu", [0], [1]), model="secret-two")
    text = compose_suite([first, second], 1).model_dump_json()
    assert text == compose_suite([second, first], 1).model_dump_json()
    assert "secret" not in text
    assert first.model_sha256 not in text


def test_several_threads_need_chains_of_layers() -> None:
    """Alone, a layer does not find in the caches what other threads have just computed."""
    assert [default_granularity(threads) for threads in (1, 2, 16)] == [1, 3, 3]


@given(
    reads=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=30),
    granularity=st.integers(1, 10),
)
def test_every_layer_is_in_exactly_one_brick_of_at_most_g_layers(
    reads: list[list[int]], granularity: int
) -> None:
    """Whatever the graph, its bricks one after the other are its layers in their order."""
    nodes = [
        (f"op{at}", [number % (at + 1) for number in each], [at + 1])
        for at, each in enumerate(reads)
    ]
    bricks = split(layer_graph(*nodes), granularity)
    assert [key for use in bricks for key in use.brick.layers] == [name for name, _, _ in nodes]
    assert all(1 <= len(use.brick.layers) <= granularity for use in bricks)
    assert all(len(use.brick.feeds) == len(use.brick.layers) - 1 for use in bricks)
