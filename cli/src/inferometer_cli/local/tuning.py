"""Runs of a search for the best server settings: short trials, and full measurements."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferometer_analysis.tune.candidates import Candidate
from inferometer_analysis.tune.halving import Halving, plan_rungs
from inferometer_api.results.result import ResultDocument, ScenarioResult, Step
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.wording import counted
from inferometer_cli.exits import STOPPED_STATES, FailedError
from inferometer_cli.local.accuracy_floor import AccuracyFloor
from inferometer_results.compare.outputs import agreement_sentence, output_agreement
from inferometer_results.wording.accuracy import figure_text

Measure = Callable[[BenchmarkRun], ResultDocument]
Make = Callable[[Mapping[str, Any]], BenchmarkRun]
"""Makes a resolved run of the members of a spec that differ from candidate to candidate; without
`scenarios`, it searches the peak."""

_TRIAL = "trial"
_SEEDS_APART = 1000
_NOT_OBTAINED = "EngineSetting"
"""The rule of the verdict for what was requested of the engine and not obtained."""
_DISTURBANCES = frozenset({"BusyMachine", "OtherProcesses", "ClientSteal", "CpuSteal"})
"""Rules of the verdict for other work, on this machine or on its host, that took CPUs."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial found."""

    rate: float
    """The highest rate within the bound; 0 if no number of clients keeps it."""
    seconds: float
    why: str = ""
    """Why the candidate is out; empty if it is not."""
    is_disturbed: bool = False
    """Whether other work took CPUs meanwhile: the rate is then a lower bound."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A finalist and its full measurement."""

    candidate: Candidate
    document: ResultDocument

    @property
    def scenario(self) -> ScenarioResult:
        """Its search for the peak."""
        return self.document.scenarios[0]

    @property
    def rate(self) -> float:
        """The peak, or the highest rate that is known to keep the bound; 0 if there is none."""
        peak = self.scenario.peak
        return 0.0 if peak is None else peak.qps or peak.low_qps or 0.0

    @property
    def ended_too_soon(self) -> bool:
        """Whether its probes were over before a growing queue could exceed the bound."""
        peak = self.scenario.peak
        return peak is not None and peak.stop_reason == "ProbesTooShort"

    @property
    def is_valid(self) -> bool:
        """Whether the search for the peak is VALID."""
        return self.scenario.verdict.state == "VALID"

    @property
    def is_disturbed(self) -> bool:
        """Whether other work took CPUs from the search for the peak."""
        return is_disturbed(self.scenario)


class InterruptedTuningError(Exception):
    """A signal ended a run of the search."""

    def __init__(self, document: ResultDocument) -> None:
        super().__init__(document.outcome.message)
        self.document = document


@dataclass(slots=True)
class Tuning:
    """One search: makes and measures the runs, and keeps what they found."""

    candidates: Sequence[Candidate]
    make: Make
    measure: Measure
    bound_microseconds: int
    floor: float | AccuracyFloor
    """What other engines and precisions must keep: the least cosine of their outputs with those of
    the reference, or an accuracy."""
    seed: int
    say: Callable[[str], None]
    full_seconds: float
    trials: list[dict[str, Any]] = field(default_factory=list)
    excluded: dict[int, str] = field(default_factory=dict)
    lowest_p99_ns: int | None = None
    """Of all steps of trials without failures; None without any."""
    confirmed: dict[int, Confirmed] = field(default_factory=dict)
    """Full measurements so far, by candidate."""
    accuracies: dict[str, float] = field(default_factory=dict)
    """The measure of each engine and precision, if an accuracy is the floor."""
    _reference: ResultDocument | None = None

    def leave_out_inaccurate(self) -> None:
        """Drop the candidates of engines and precisions below the accuracy that is the floor.

        Raises InterruptedTuningError, and FailedError if none is left.
        """
        floor = self.floor
        if not isinstance(floor, AccuracyFloor):
            return
        kept = []
        engines = dict.fromkeys((each.runtime, each.precision) for each in self.candidates)
        for engine in engines:
            document = self.measure(self.make(floor.fields(*engine)))
            if document.outcome.state in STOPPED_STATES:
                raise InterruptedTuningError(document)
            name, found, problem = ":".join(engine), floor.figure(document), floor.problem(document)
            if found is not None:
                self.accuracies[name] = found.value
                self.say(f"{name}: {figure_text(found)}")
            if problem:
                self.say(f"{name} is left out: {problem}")
            else:
                kept.append(engine)
        if not kept:
            raise FailedError(
                "No engine keeps --least-accuracy: lower it, or see what was found above."
            )
        self.candidates = [
            each for each in self.candidates if (each.runtime, each.precision) in kept
        ]

    def search(self, reference: int) -> list[int]:
        """Return the finalists; `reference` is the candidate whose outputs others must have.

        Raises InterruptedTuningError, and FailedError if that candidate cannot be measured.
        """
        began = time.monotonic()
        first = self._measure(self._trial_run(reference, 1), reference)
        if first.outcome.state != "Complete":
            raise FailedError(f"The first candidate cannot be measured: {first.outcome.message}")
        self._reference = first
        start_seconds = max(0.5, time.monotonic() - began - 1)
        rungs = plan_rungs(
            len(self.candidates), full_seconds=self.full_seconds, start_seconds=start_seconds
        )
        search = Halving(len(self.candidates), rungs, self.seed)
        while (round_ := search.next_round())[0]:
            self._measure_round(search, *round_)
        if disturbed := sum(each["disturbed"] for each in self.trials):
            self.say(
                f"note: other processes took CPUs from {disturbed} of the {len(self.trials)} "
                "trials. Their rates are too low: on a busy machine the best candidate may be "
                "missed. Stop the other processes, or tune on an idle machine."
            )
        return search.finalists()

    def confirm(self, finalists: Sequence[int]) -> None:
        """Measure the finalists in full, each with a seed that no trial had.

        Those that other work disturbed are measured once more, after all others. Raises
        InterruptedTuningError.
        """
        found = self.confirmed
        for place, index in enumerate(finalists):
            self.say(f"confirming {place + 1}/{len(finalists)}: {self.candidates[index].label}")
            if (first := self._confirmed(index, place)) is not None:
                found[index] = first
        disturbed = [index for index, each in found.items() if each.is_disturbed]
        for place, index in enumerate(disturbed, len(finalists)):
            label = self.candidates[index].label
            self.say(f"confirming once more, since other processes took CPUs: {label}")
            if (again := self._confirmed(index, place)) is not None:
                found[index] = min(found[index], again, key=_preference)

    def ranked(self) -> list[Confirmed]:
        """Return the full measurements so far, the best first."""
        return sorted(self.confirmed.values(), key=lambda each: (not each.is_valid, -each.rate))

    def _confirmed(self, index: int, place: int) -> Confirmed | None:
        """Return the full measurement of a candidate; None if it failed."""
        candidate = self.candidates[index]
        seed = self.seed + _SEEDS_APART + place
        document = self._measure(self.make({"server": candidate.server(), "seed": seed}), index)
        if document.outcome.state != "Complete" or not document.scenarios:
            return None
        return Confirmed(candidate, document)

    def _measure_round(self, search: Halving, order: Sequence[int], seconds: float) -> None:
        again = " once more, since other processes took CPUs" if search.is_repeating else ""
        count, rungs = counted(len(order), "candidate"), counted(len(search.rungs), "rung")
        self.say(f"{count}{again}, {seconds:.1f} s each (of {rungs})")
        for index in order:
            trial = self._trial(index, seconds)
            self.trials.append(
                {
                    "candidate": index,
                    "seconds": trial.seconds,
                    "qps": round(trial.rate, 3),
                    "disturbed": trial.is_disturbed,
                }
            )
            label = self.candidates[index].label
            if trial.why:
                self.excluded[index] = trial.why
                search.exclude(index)
                self.say(f"  {label}: out, {trial.why}")
            else:
                search.observe(index, trial.rate, trial.seconds, is_disturbed=trial.is_disturbed)
                disturbed = ", while other processes took CPUs" if trial.is_disturbed else ""
                self.say(f"  {label}: {trial.rate:.1f}/s{disturbed}")

    def _trial(self, index: int, seconds: float) -> Trial:
        document = self._measure(self._trial_run(index, seconds), index)
        if document.outcome.state != "Complete":
            return Trial(0.0, 0.0, document.outcome.message)
        steps = [step for each in document.scenarios for step in each.steps]
        found = [each for each in map(p99_of, steps) if each is not None]
        if found:
            self.lowest_p99_ns = min([*found, self.lowest_p99_ns or found[0]])
        measured = sum(step.duration_nanoseconds for step in steps) / 1e9
        why = not_obtained(document) or self._other_outputs(index, document)
        rate = max((rate_within(step, self.bound_microseconds) for step in steps), default=0.0)
        return Trial(rate, measured, why, any(map(is_disturbed, document.scenarios)))

    def _trial_run(self, index: int, seconds: float) -> BenchmarkRun:
        fields = trial_fields(self.candidates[index], seconds)
        return self.make({**fields, "seed": self.seed + len(self.trials)})

    def _other_outputs(self, index: int, document: ResultDocument) -> str:
        """Return why a candidate may not be ranked; empty if its outputs are those wanted."""
        reference, candidate = self.candidates[0], self.candidates[index]
        engines = {(each.runtime, each.precision) for each in (reference, candidate)}
        if len(engines) == 1 or isinstance(self.floor, AccuracyFloor):
            return ""
        agreement = output_agreement(self._reference, document)
        if agreement is None:
            return "its outputs cannot be compared with those of the first candidate"
        if agreement.keeps(self.floor):
            return ""
        return f"it computes something else. {agreement_sentence(agreement)}"

    def _measure(self, run: BenchmarkRun, index: int) -> ResultDocument:
        document = self.measure(run)
        if document.outcome.state in STOPPED_STATES:
            raise InterruptedTuningError(document)
        if document.outcome.state != "Complete":
            self.excluded[index] = document.outcome.message
        return document


def trial_fields(candidate: Candidate, seconds: float) -> dict[str, Any]:
    """Return the fields of a specification that measure a candidate for about some seconds."""
    whole = max(1, round(seconds))
    clients = list(candidate.trial_clients)
    return {
        "server": candidate.server(),
        "scenarios": [{"name": _TRIAL, "concurrency": {"clients": clients}}],
        "validity": {
            "warmUpSeconds": 0,
            "minDurationSeconds": whole,
            "minQueries": 1,
            "maxDurationSeconds": 60 + 10 * whole,
        },
    }


def not_obtained(document: ResultDocument) -> str:
    """Return why a result is not that of the requested settings; empty if it is."""
    found = (each for scenario in document.scenarios for each in scenario.verdict.reasons)
    return next((each.message for each in found if each.rule == _NOT_OBTAINED), "")


def is_disturbed(scenario: ScenarioResult) -> bool:
    """Return whether other work took CPUs from a scenario, as its verdict says."""
    findings = (*scenario.verdict.reasons, *scenario.verdict.cautions)
    return any(each.rule in _DISTURBANCES for each in findings)


def _preference(each: Confirmed) -> tuple[bool, bool, float]:
    """Return what makes one of two measurements of a candidate count: the lower one does."""
    return not each.is_valid, each.is_disturbed, -each.rate


def p99_of(step: Step) -> int | None:
    """Return the P99 latency of a step in nanoseconds; None if it has none, or failures."""
    latency = step.latency
    if latency is None or step.counts.failed:
        return None
    return next(each.nanoseconds for each in latency.percentiles if each.percentile == 99)


def rate_within(step: Step, bound_microseconds: int) -> float:
    """Return the rate of a step whose P99 keeps a bound and that has no failures; else 0."""
    p99 = p99_of(step)
    is_within = p99 is not None and p99 <= bound_microseconds * 1000
    return step.achieved_samples_per_second if is_within else 0.0


def write_summary(tuning: Tuning, path: Path, *, ran_to_completion: bool) -> None:
    """Write every trial and the confirmed peaks as JSON."""
    import orjson

    document = {
        "ranToCompletion": ran_to_completion,
        "boundMicroseconds": tuning.bound_microseconds,
        **({"accuracies": tuning.accuracies} if tuning.accuracies else {}),
        "candidates": [each.server() for each in tuning.candidates],
        "excluded": {str(index): why for index, why in tuning.excluded.items()},
        "trials": tuning.trials,
        "confirmed": [
            {
                "server": each.candidate.server(),
                "verdict": each.scenario.verdict.state,
                "qps": each.rate,
                "seed": each.scenario.seed,
            }
            for each in tuning.ranked()
        ],
    }
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
