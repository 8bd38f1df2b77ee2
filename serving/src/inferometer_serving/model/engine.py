"""How does one instance compute the requests that it was given, alone or joined?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

import structlog

from inferometer_serving.batching.joining import Joiner, split
from inferometer_serving.errors import Refusal, RequestRefusedError
from inferometer_serving.infer.ask import Ask
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.session import Session, reason_of


@dataclass(slots=True)
class Execution:
    """One run of the model: for whom, what each gets, and when it went through which part.

    Times are in ns of the monotonic clock.
    """

    asks: Sequence[Ask[Any]]
    answers: list[Any]
    """An answer for each of them, or the exception that says why there is none."""
    samples: int
    started_ns: int
    joined_ns: int
    computed_ns: int
    written_ns: int
    is_computed: bool
    """False where the model failed."""


class Engine:
    """Runs one batch at a time."""

    def __init__(self, session: Session, max_samples: int) -> None:
        self._run = session.runner.run
        self._joiner = Joiner(max_samples)

    def compute(self, asks: Sequence[Ask[Any]]) -> list[Execution]:
        """Return what came of each request.

        They are one run of the model; where that fails, each is run alone, so that only the one at
        fault fails.
        """
        if len(asks) == 1:
            return [self._alone(asks[0])]
        try:
            return [self._together(asks)]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is one request's fault
            structlog.get_logger().info("batch fell apart", requests=len(asks), error=repr(error))
            return [self._alone(each) for each in asks]

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the outputs. Raises RequestRefusedError where the model cannot compute them."""
        try:
            return self._run(output_names, inputs)
        except Exception as error:
            raise _failure(error) from error

    def _together(self, asks: Sequence[Ask[Any]]) -> Execution:
        started_ns = monotonic_ns()
        samples = [each.samples for each in asks]
        inputs = self._joiner.joined([each.inputs for each in asks])
        joined_ns = monotonic_ns()
        results = self._run(asks[0].output_names, inputs)
        computed_ns = monotonic_ns()
        parts = split(results, samples)
        answers = [_written(ask, part) for ask, part in zip(asks, parts, strict=True)]
        times = (started_ns, joined_ns, computed_ns, monotonic_ns())
        return Execution(asks, answers, sum(samples), *times, is_computed=True)

    def _alone(self, ask: Ask[Any]) -> Execution:
        started_ns = monotonic_ns()
        try:
            results = self._run(ask.output_names, ask.inputs)
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
            ended_ns = monotonic_ns()
            times = (started_ns, started_ns, ended_ns, ended_ns)
            return Execution((ask,), [_failure(error)], ask.samples, *times, is_computed=False)
        computed_ns = monotonic_ns()
        answer = _written(ask, results)
        times = (started_ns, started_ns, computed_ns, monotonic_ns())
        return Execution((ask,), [answer], ask.samples, *times, is_computed=True)


def _written(ask: Ask[Any], results: list[Array]) -> Any:
    write: Callable[[list[Array]], Any] = ask.write
    try:
        return write(results)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
        return error


def _failure(error: Exception) -> RequestRefusedError:
    refusal = Refusal.INVALID if type(error).__name__ == "InvalidArgument" else Refusal.FAILED
    return RequestRefusedError(
        refusal, f"The model could not compute this request: {reason_of(error)}"
    )
