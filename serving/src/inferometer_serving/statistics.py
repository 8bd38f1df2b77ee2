"""The counters of the protocol's statistics extension.

Everything is counted in the event loop, once an answer is there, so each figure has one writer.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from inferometer_serving.model.engine import Execution
from inferometer_serving.model.session import StepsOfRun


class Duration:
    """How often something happened, and how long it took in all."""

    __slots__ = ("count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Count one, or several that took `ns` together."""
        self.count += count
        self.total_ns += ns

    def to_document(self) -> dict[str, int]:
        """Return it as the protocol writes it."""
        return {"count": self.count, "ns": self.total_ns}


class _Parts:
    """The three parts of computing."""

    __slots__ = ("infer", "input", "output")

    def __init__(self) -> None:
        self.input = Duration()
        self.infer = Duration()
        self.output = Duration()

    def add(self, input_ns: int, infer_ns: int, output_ns: int, count: int = 1) -> None:
        """Count each of them once, or several that took so long together."""
        self.input.add(input_ns, count)
        self.infer.add(infer_ns, count)
        self.output.add(output_ns, count)

    def to_document(self) -> dict[str, dict[str, int]]:
        return {
            "compute_input": self.input.to_document(),
            "compute_infer": self.infer.to_document(),
            "compute_output": self.output.to_document(),
        }


class _StepCounts:
    """One step around the model."""

    __slots__ = ("fail", "success")

    def __init__(self) -> None:
        self.success = Duration()
        self.fail = Duration()

    def to_document(self) -> dict[str, dict[str, int]]:
        return {"success": self.success.to_document(), "fail": self.fail.to_document()}


class Statistics:
    """The figures of one model since the server's start."""

    def __init__(self) -> None:
        self._success = Duration()
        self._fail = Duration()
        self._queue = Duration()
        self._parts = _Parts()
        self._batches: defaultdict[int, _Parts] = defaultdict(_Parts)
        self._inferences = 0
        self._executions = 0
        self._last_ms = 0
        self._steps: defaultdict[str, _StepCounts] = defaultdict(_StepCounts)

    def count_failure(self, ns: int) -> None:
        """Count a request that ended in an error `ns` after its last byte."""
        self._fail.add(ns)

    def count_inline_runs(
        self, samples: int, runs: int, input_ns: int, infer_ns: int, output_ns: int, last_ms: int
    ) -> None:
        """Count runs of the model, each for one request of `samples` that waited for nothing.

        The times are of all runs together.
        """
        self._success.add(input_ns + infer_ns + output_ns, runs)
        self._queue.add(0, runs)
        self._parts.add(input_ns, infer_ns, output_ns, runs)
        self._batches[samples].add(0, infer_ns, output_ns, runs)
        self._inferences += samples * runs
        self._executions += runs
        self._last_ms = max(self._last_ms, last_ms)

    def count_execution(self, execution: Execution, now_ns: int) -> None:
        """Count a run of the model and the requests that it answered."""
        joining_ns = execution.joined_ns - execution.started_ns
        infer_ns = execution.infer_ns
        output_ns = execution.written_ns - execution.computed_ns
        if execution.steps is not None:
            self._count_steps(execution.steps, execution.answers, now_ns - execution.started_ns)
        for pending, answer in zip(execution.requests, execution.answers, strict=True):
            if isinstance(answer, Exception):
                self._fail.add(now_ns - pending.began_ns)
                continue
            self._success.add(now_ns - pending.began_ns)
            self._queue.add(execution.started_ns - pending.waits_since_ns)
            self._parts.add(pending.read_ns + joining_ns, infer_ns, output_ns)
            self._inferences += pending.samples
        if execution.is_computed:
            self._executions += 1
            self._last_ms = time.time_ns() // 1_000_000
            self._batches[execution.samples].add(joining_ns, infer_ns, output_ns)

    def _count_steps(self, steps: StepsOfRun, answers: Sequence[object], taken_ns: int) -> None:
        """Count the steps of a run in full for every request that it answered."""
        if steps.failed:
            self._steps[steps.failed].fail.add(taken_ns)
        answered = sum(not isinstance(each, Exception) for each in answers)
        totals: Counter[str] = Counter()
        for name, began_ns, ended_ns in steps.spans:
            totals[name] += ended_ns - began_ns
        for name, ns in totals.items() if answered else ():
            self._steps[name].success.add(answered * ns, answered)

    def to_document(self, model_name: str, model_version: str) -> dict[str, Any]:
        """Return the figures as the protocol writes them, and those of steps by name."""
        steps = {name: each.to_document() for name, each in self._steps.items()}
        return {
            "name": model_name,
            "version": model_version,
            "last_inference": self._last_ms,
            "inference_count": self._inferences,
            "execution_count": self._executions,
            "inference_stats": {
                "success": self._success.to_document(),
                "fail": self._fail.to_document(),
                "queue": self._queue.to_document(),
                **self._parts.to_document(),
                "cache_hit": Duration().to_document(),
                "cache_miss": Duration().to_document(),
            },
            "batch_stats": [
                {"batch_size": size, **parts.to_document()}
                for size, parts in sorted(self._batches.items())
            ],
            **({"response_stats": steps} if steps else {}),
        }
