"""Numeric comparison of the outputs of two results, and what it permits to conclude."""

import math
from base64 import b64decode
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferometer_api.ranking import MEASURE_ACCURACY, Computation, engine_of, may_rank
from inferometer_api.results.result import OutputSamples, ResultDocument, SampledOutput
from inferometer_results.compare.accuracy import valid_figures

LEAST_COSINE = 0.999
"""Below it outputs are not equivalent. Reduced precision keeps it: bfloat16 has 8 bits, which are
errors of 0.4 % in each number. The error by the norm has a limit that follows from it, see
`largest_relative_error`."""
LEAST_SAME_CLASS = 0.75
"""The least share of replies with the same first class. Of random inputs the scores of the first
two classes may be nearly equal, so that a rounding error exchanges them."""
_ROUNDING = 1e-9
"""The cosine of equal replies may be that much below 1."""

NOT_COMPARED = (
    "Engine or precision differ, and the results hold no outputs for the same inputs (of a mix "
    "never): it is not known whether both compute the same."
)


@dataclass(frozen=True, slots=True)
class OutputAgreement:
    """How far the outputs of two servers agree on the same inputs."""

    samples: int
    largest_error: float
    mean_error: float
    cosine: float
    """Of the least similar output in the least similar reply."""
    scale: float
    """The largest magnitude in the first server's outputs."""
    relative_error: float
    """The norm of the differences in an output over all replies, by the smaller one of the norms of
    both outputs; of the least similar output. Infinite if a number is not finite."""
    not_finite: int = 0
    """Numbers that are NaN or infinite in either server's outputs. The errors leave them out, and
    the cosine of their reply is 0."""
    classes: int = 0
    """Replies with a score for each class."""
    same_class: int = 0
    """Those of them in which the class with the highest score is the same."""

    @property
    def is_equivalent(self) -> bool:
        """Whether both may be ranked by speed."""
        return self.keeps(LEAST_COSINE)

    def keeps(self, least_cosine: float) -> bool:
        """Return whether outputs are so nearly parallel and of one size, mostly of one class."""
        is_same = self.same_class >= LEAST_SAME_CLASS * self.classes
        is_near = self.relative_error <= largest_relative_error(least_cosine)
        return self.cosine >= least_cosine - _ROUNDING and is_near and is_same


def largest_relative_error(least_cosine: float) -> float:
    """Return the error by the norm that is as large as that of two equally long outputs.

    A cosine of 0.999 gives 4.5 %. It bounds errors of scale and offset as the cosine bounds those
    of direction, which it alone sees.
    """
    return math.sqrt(2 * (1 - least_cosine))


def output_agreement(
    before: ResultDocument | None, after: ResultDocument | None
) -> OutputAgreement | None:
    """Return how far the outputs of two results agree; None if they have none in common."""
    first, second = _samples(before), _samples(after)
    if first is None or second is None:
        return None
    count = min(len(first.inputs), len(second.inputs))
    if first.inputs[:count] != second.inputs[:count]:
        return None
    return compare_outputs(first, second, count)


def compare_outputs(
    first: OutputSamples, second: OutputSamples, count: int
) -> OutputAgreement | None:
    """Return how far the first replies agree; None if no output has the same name and shape."""
    others = {each.name: each for each in second.outputs}
    pairs = [
        (each, others[each.name])
        for each in first.outputs
        if each.name in others
        and (each.shape, each.values_per_sample)
        == (others[each.name].shape, others[each.name].values_per_sample)
    ]
    if not pairs or not count:
        return None
    errors, cosines, classes, same, not_finite = [], [], 0, 0, 0
    scale = relative_error = 0.0
    for one, other in pairs:
        a, b = _values(one, count), _values(other, count)
        is_finite = np.isfinite(a) & np.isfinite(b)
        a, b = np.where(is_finite, a, 0.0), np.where(is_finite, b, 0.0)
        of_replies = np.where(is_finite.all(axis=1), _cosines(a, b), 0.0)
        errors.append(np.abs(a - b)[is_finite])
        cosines.append(float(of_replies.min()))
        not_finite += int((~is_finite).sum())
        relative_error = max(relative_error, _relative_error(a, b))
        scale = max(scale, float(np.abs(a).max()))
        top = list(zip(one.largest, other.largest, strict=False))[:count]
        classes += len(top)
        same += sum(x == y for x, y in top)
    every = np.concatenate(errors)
    return OutputAgreement(
        samples=count,
        largest_error=float(every.max(initial=0.0)),
        mean_error=float(every.mean()) if every.size else 0.0,
        cosine=min(cosines),
        scale=scale,
        relative_error=math.inf if not_finite else relative_error,
        not_finite=not_finite,
        classes=classes,
        same_class=same,
    )


def agreement_sentence(found: OutputAgreement) -> str:
    """Return the comparison in a sentence or two."""
    top = f", the first class is the same in {found.same_class} of {found.classes}"
    words = (
        f"Outputs for {found.samples} seeded inputs: largest error {found.largest_error:.3g}, mean "
        f"error {found.mean_error:.3g} (largest output {found.scale:.3g}), error by the norm "
        f"{found.relative_error:.2%}, cosine {found.cosine:.6f}{top if found.classes else ''}."
    )
    if found.not_finite:
        words += f" {found.not_finite} of the compared numbers are NaN or infinite."
    if found.is_equivalent:
        return words
    return (
        f"{words} The outputs are not equivalent, which takes finite numbers, a cosine of at least "
        f"{LEAST_COSINE}, an error by the norm of at most "
        f"{largest_relative_error(LEAST_COSINE):.1%}, and the same first class in "
        f"{LEAST_SAME_CLASS:.0%} of replies."
    )


def ranking_caveat(
    before: ResultDocument, after: ResultDocument, names: tuple[str, str] = ("A", "B")
) -> str:
    """Return why two results cannot be ranked by speed, as the end of a sentence that names them.

    Empty if they can: see `may_rank`.
    """
    first, second = computation_of(before), computation_of(after)
    if may_rank(first, second, are_outputs_equivalent=False):
        return ""
    agreement = output_agreement(before, after)
    is_equivalent = agreement is not None and agreement.is_equivalent
    if may_rank(first, second, are_outputs_equivalent=is_equivalent):
        return ""
    outputs = "unknown, and may differ," if agreement is None else "not equivalent"
    return f"has outputs that are {outputs} in {names[0]} and {names[1]}. {MEASURE_ACCURACY}"


def computation_of(document: ResultDocument) -> Computation:
    """Return what computed the outputs of a result."""
    environment = document.environment
    settings = {} if environment is None else environment.server.settings
    return Computation(engine_of(document.run.spec.server, settings), _has_accuracy(document))


def _has_accuracy(document: ResultDocument) -> bool:
    """Return whether a valid scenario has an accuracy with its interval."""
    return any(None not in {each.low, each.high} for each in valid_figures(document))


def computes_otherwise(before: ResultDocument, after: ResultDocument) -> bool:
    """Return whether two results have different engines, servers or precisions."""
    return computation_of(before).engine != computation_of(after).engine


def _samples(document: ResultDocument | None) -> OutputSamples | None:
    """Return the outputs of a result; None if it has none, or queries further models as well."""
    if document is None or document.environment is None:
        return None
    own = document.run.spec.model.served_name
    mixes = (each.mix or () for each in document.run.spec.scenarios)
    if any(part.model != own for mix in mixes for part in mix):
        return None
    return document.environment.output_samples


def _values(output: SampledOutput, count: int) -> NDArray[np.float64]:
    flat = np.frombuffer(b64decode(output.values), "<f4").astype(np.float64)
    return flat.reshape(-1, output.values_per_sample)[:count]


def _relative_error(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the norm of the differences by the smaller norm; 0 if both are zero."""
    apart = float(np.linalg.norm(a - b))
    smaller = float(min(np.linalg.norm(a), np.linalg.norm(b)))
    if not apart:
        return 0.0
    return apart / smaller if smaller else math.inf


def _cosines(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine of each reply; 1 where both are zero, 0 where one is."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    both_zero = ~a.any(axis=1) & ~b.any(axis=1)
    products = (a * b).sum(axis=1)
    safe = np.where(lengths > 0, lengths, 1.0)
    return np.where(both_zero, 1.0, np.where(lengths > 0, products / safe, 0.0))
