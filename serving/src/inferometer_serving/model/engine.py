"""One instance: computes requests, alone or joined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

import structlog

from inferometer_serving.batching.joining import Joiner, split
from inferometer_serving.errors import RefusalReason, RequestRefusedError
from inferometer_serving.infer.pending_request import PendingRequest
from inferometer_serving.infer.tensors import Array
from inferometer_serving.model.session import Session, StepsOfRun, reason_of


@dataclass(slots=True)
class Execution:
    """One run of the model: for whom, what each gets, and when it went through which part.

    Times are in ns of the monotonic clock.
    """

    requests: Sequence[PendingRequest[Any]]
    answers: list[Any]
    """An answer for each of them, or the exception that says why there is none."""
    samples: int
    started_ns: int
    joined_ns: int
    computed_ns: int
    written_ns: int
    is_computed: bool
    """False where the model failed."""
    steps: StepsOfRun | None = None
    """The steps around the model; None: there are none."""

    @property
    def infer_ns(self) -> int:
        """How long the model itself took."""
        if self.steps is None:
            return self.computed_ns - self.joined_ns
        return self.steps.model_ended_ns - self.steps.model_began_ns


class Engine:
    """Runs one batch at a time."""

    def __init__(self, session: Session, max_samples: int) -> None:
        self._run = session.runner.run
        self._last_steps = session.last_steps
        self._joiner = Joiner(max_samples)

    def compute(self, requests: Sequence[PendingRequest[Any]]) -> list[Execution]:
        """Return what came of each request.

        They are one run of the model; where that fails, each is run alone, so that only the one at
        fault fails.
        """
        if len(requests) == 1:
            return [self._alone(requests[0])]
        try:
            return [self._together(requests)]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is one request's fault
            structlog.get_logger().info(
                "batch fell apart", requests=len(requests), error=repr(error)
            )
            return [self._alone(each) for each in requests]

    def run(self, output_names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """Return the outputs. Raises RequestRefusedError if the model cannot compute them."""
        try:
            return self._run(output_names, inputs)
        except Exception as error:
            raise _failure(error) from error

    def _together(self, requests: Sequence[PendingRequest[Any]]) -> Execution:
        started_ns = monotonic_ns()
        samples = [each.samples for each in requests]
        inputs = self._joiner.joined([each.inputs for each in requests])
        joined_ns = monotonic_ns()
        results = self._run(requests[0].output_names, inputs)
        computed_ns = monotonic_ns()
        parts = split(results, samples)
        answers = [_write(pending, part) for pending, part in zip(requests, parts, strict=True)]
        times = (started_ns, joined_ns, computed_ns, monotonic_ns())
        return Execution(
            requests, answers, sum(samples), *times, is_computed=True, steps=self._steps()
        )

    def _alone(self, pending: PendingRequest[Any]) -> Execution:
        started_ns = monotonic_ns()
        try:
            results = self._run(pending.output_names, pending.inputs)
        except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
            ended_ns = monotonic_ns()
            times = (started_ns, started_ns, ended_ns, ended_ns)
            return Execution(
                (pending,),
                [_failure(error)],
                pending.samples,
                *times,
                is_computed=False,
                steps=self._steps(),
            )
        computed_ns = monotonic_ns()
        answer = _write(pending, results)
        times = (started_ns, started_ns, computed_ns, monotonic_ns())
        return Execution(
            (pending,), [answer], pending.samples, *times, is_computed=True, steps=self._steps()
        )

    def _steps(self) -> StepsOfRun | None:
        return None if self._last_steps is None else self._last_steps()


def _write(pending: PendingRequest[Any], results: list[Array]) -> Any:
    write: Callable[[list[Array]], Any] = pending.write
    began_ns = 0 if pending.trace is None else monotonic_ns()
    try:
        return write(results)
    except Exception as error:  # noqa: BLE001 - one request's fault must not end the server
        return error
    finally:
        if pending.trace is not None:
            pending.trace.add("encode", began_ns, monotonic_ns())


def _failure(error: Exception) -> RequestRefusedError:
    if isinstance(error, RequestRefusedError):
        return error
    refusal = (
        RefusalReason.INVALID if type(error).__name__ == "InvalidArgument" else RefusalReason.FAILED
    )
    return RequestRefusedError(
        refusal, f"The model could not compute this request: {reason_of(error)}"
    )
