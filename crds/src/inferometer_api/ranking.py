"""The rule by which figures of different engines and precisions are ranked by speed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from inferometer_api.spec.server import Server

MEASURE_ACCURACY = (
    "Engine or precision differ: to compare their speed, give both runs a scenario accuracy."
)

NOT_RANKED = (
    "Some cells differ in engine or precision, and it is not known whether they compute the same: "
    "none of them is the best. To rank them, give the template a scenario accuracy."
)


@dataclass(frozen=True, slots=True)
class Computation:
    """What computed the outputs of a run, and whether its accuracy is known."""

    engine: tuple[str, ...] = ()
    """See `engine_of`."""
    has_accuracy: bool = False


def engine_of(server: Server, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return what identifies engine and precision; `settings` are those that the server reports."""
    custom = "" if server.custom is None else server.custom.name
    effective = settings.get("precision", ""), settings.get("providers", "")
    return (server.runtime, server.precision, server.triton_backend or "", custom, *effective)


def may_rank(first: Computation, second: Computation, *, are_outputs_equivalent: bool) -> bool:
    """Return whether two runs may be ranked by speed.

    They may with the same engine and precision, with equivalent outputs, or if the accuracy of both
    is known.
    """
    alike = first.engine == second.engine
    return alike or are_outputs_equivalent or (first.has_accuracy and second.has_accuracy)


def may_rank_all(runs: Collection[Computation]) -> bool:
    """Return whether each of these runs may be ranked with each other, if no outputs are known."""
    distinct = set(runs)
    return all(
        may_rank(one, other, are_outputs_equivalent=False) for one in distinct for other in distinct
    )
