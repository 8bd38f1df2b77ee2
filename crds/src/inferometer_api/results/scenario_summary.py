"""The summary of a measured scenario, as the status of its run shows it."""

from collections.abc import Sequence

from inferometer_api.results.result import ScenarioResult, ServerTime, Step, nanoseconds_at
from inferometer_api.status.run_status import (
    MOST_STEPS,
    ScenarioSummary,
    ServedStepSummary,
    ServerTimeSummary,
    StepSummary,
)

LONGEST_STEP = 64
_MOST_MESSAGES = 16
_LONGEST_MESSAGE = 4096
_MOST_SERVED_STEPS = 32


def scenario_summary(result: ScenarioResult) -> ScenarioSummary:
    """Return the summary of a scenario for the status: rates in queries per 1,000 s, times in us.

    All figures are of one step, which `step` names: the probe at the peak, the knee, otherwise the
    step with the most samples per second. `total_queries` and `total_errors` count all steps, and
    `steps` has the figures of each.
    """
    best = representative_step(result)
    peak = None if result.peak is None else result.peak.qps
    found = result.verdict.reasons
    summary = ScenarioSummary(
        name=result.name,
        repeat=result.repeat,
        peak_milli_qps=None if peak is None else round(peak * 1000),
        verdict=result.verdict.state,
        reasons=_sentences([finding.message for finding in found]),
        reason_rules=[finding.rule[:64] for finding in found[: _shown(len(found))]],
        cautions=_sentences([finding.message for finding in result.verdict.cautions]),
    )
    if result.cold_start is not None:
        first = result.cold_start.first_queries_nanoseconds[:1]
        summary = summary.model_copy(
            update={
                "cold_start_microseconds": round(result.cold_start.total_nanoseconds / 1000),
                "first_answer_microseconds": round(first[0] / 1000) if first else None,
            }
        )
    if len(result.steps) > 1:
        summary = summary.model_copy(
            update={
                "total_queries": sum(step.counts.queries for step in result.steps),
                "total_errors": sum(step.counts.failed for step in result.steps),
                "steps": [] if result.peak is not None else _steps(result.steps),
            }
        )
    return summary if best is None else summary.model_copy(update=_figures(best))


def representative_step(result: ScenarioResult) -> Step | None:
    """Return the step that stands for a scenario, as `scenario_summary` says."""
    named = result.peak.step if result.peak is not None else None
    if result.knee is not None:
        named = result.knee.step
    chosen = [step for step in result.steps if step.label == named]
    if result.peak is not None:
        return chosen[0] if chosen else None
    among = chosen or result.steps
    return max(among, key=lambda step: step.achieved_samples_per_second, default=None)


def _figures(step: Step) -> dict[str, object]:
    return {
        "step": step.label[:LONGEST_STEP],
        "queries": step.counts.queries,
        "errors": step.counts.failed,
        "achieved_milli_qps": round(step.achieved_qps * 1000),
        "scheduled_milli_qps": (
            None if step.scheduled_qps is None else round(step.scheduled_qps * 1000)
        ),
        "p50_microseconds": _microseconds(step, 50.0),
        "p90_microseconds": _microseconds(step, 90.0),
        "p99_microseconds": _microseconds(step, 99.0),
        "p999_microseconds": _microseconds(step, 99.9),
        "server_time": _server_time(step.server_time),
        "microjoules_per_inference": step.energy.microjoules_per_inference,
        "net_microjoules_per_inference": step.energy.net_microjoules_per_inference,
        "energy_attribution": step.energy.attribution,
    }


def _steps(steps: Sequence[Step]) -> list[StepSummary]:
    """Return the figures of each step; of more than a scenario can have, none."""
    if len(steps) > MOST_STEPS:
        return []
    return [
        StepSummary(
            step=step.label[:LONGEST_STEP],
            achieved_milli_qps=(
                round(step.achieved_qps * 1000) if step.scheduled_qps is None else None
            ),
            p50_microseconds=_microseconds(step, 50.0),
        )
        for step in steps
    ]


def _server_time(spent: ServerTime | None) -> ServerTimeSummary | None:
    if spent is None:
        return None
    return ServerTimeSummary(
        queue_microseconds=round(spent.queue_nanoseconds / 1000),
        compute_input_microseconds=round(spent.compute_input_nanoseconds / 1000),
        compute_infer_microseconds=round(spent.compute_infer_nanoseconds / 1000),
        compute_output_microseconds=round(spent.compute_output_nanoseconds / 1000),
        steps=[
            ServedStepSummary(
                step=each.step[:LONGEST_STEP],
                mean_microseconds=round(each.nanoseconds / 1000),
                share_millionths=round(each.share * 1e6),
            )
            for each in spent.steps[:_MOST_SERVED_STEPS]
        ],
    )


def _microseconds(step: Step, percentile: float) -> int | None:
    nanoseconds = nanoseconds_at(step.latency, percentile)
    return None if nanoseconds is None else round(nanoseconds / 1000)


def _sentences(messages: Sequence[str]) -> list[str]:
    """Return as many messages as a status can hold; the last says how many are left out."""
    cut = [_cut(message, _LONGEST_MESSAGE) for message in messages]
    shown = _shown(len(cut))
    if shown == len(cut):
        return cut
    return [*cut[:shown], f"{len(cut) - shown} more are in the result document."]


def _shown(count: int) -> int:
    """Return how many of so many messages are shown: the last place may hold the count."""
    return count if count <= _MOST_MESSAGES else _MOST_MESSAGES - 1


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
