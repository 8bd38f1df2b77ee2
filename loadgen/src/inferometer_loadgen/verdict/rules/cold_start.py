"""Rules about cold starts: what the phases explain, and whether the node was in its state."""

from inferometer_api.results.cold_start import IMAGE_PULLED, ColdStartRecord
from inferometer_loadgen.verdict.measurement import (
    ScenarioConditions,
    Violation,
    Violations,
    format_milliseconds,
)

GAP_SHARE_LIMIT = 0.05
RESIDENT_SHARE_LIMIT = 0.01


def unexplained_start(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the phases leave too much of the start unexplained."""
    start = conditions.cold_start
    if start is None or start.gap_share <= GAP_SHARE_LIMIT:
        return
    yield Violation(
        f"No phase covers {format_milliseconds(start.gap_nanoseconds)} of the "
        f"{format_milliseconds(start.total_nanoseconds)} of the start "
        f"({100 * start.gap_share:.1f} %).",
        f"{100 * start.gap_share:.1f} %",
        f"{100 * GAP_SHARE_LIMIT:g} %",
        excess=start.gap_share / GAP_SHARE_LIMIT,
    )


def cold_state(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if the node held more or less than the state of the start says."""
    start = conditions.cold_start
    if start is not None and start.state == "Nothing" and not _pulls_image(start):
        yield Violation(
            "The state Nothing has no image on the node before the start, and no event shows that "
            "it was pulled.",
            "not pulled",
            "pulled",
        )
    lacks_image = start is not None and _pulls_image(start) and "image" not in start.unavailable
    if start is not None and start.state != "Nothing" and lacks_image:
        yield Violation(
            f"The state {start.state} has the image on the node before the start, and the pod "
            "pulled it.",
            "pulled",
            "not pulled",
        )
    share = None if start is None else start.resident_share
    if start is None or share is None:
        return
    is_warm = start.state == "ModelInMemory"
    model, resident = start.model_bytes or 1, start.resident_bytes or 0
    outside = (model - resident) / model if is_warm else share
    if outside <= RESIDENT_SHARE_LIMIT:
        return
    limit = 100 * (1 - RESIDENT_SHARE_LIMIT) if is_warm else 100 * RESIDENT_SHARE_LIMIT
    yield Violation(
        f"Before the start {100 * share:.1f} % of the model's files were in memory; the state "
        f"{start.state} has {'at least' if is_warm else 'at most'} {limit:g} %.",
        f"{100 * share:.1f} %",
        f"{limit:g} %",
        excess=outside / RESIDENT_SHARE_LIMIT,
    )


def state_not_proven(conditions: ScenarioConditions) -> Violations:
    """Yield a violation if it is not known whether model or image were where the state says."""
    start = conditions.cold_start
    if start is not None and start.resident_share is None:
        why = start.unavailable.get("residency", "the share in memory was not measured")
        yield Violation(
            f"It is not known whether the model was in memory before the start: {why}.",
            "unknown",
            "known",
        )
    if start is not None and "image" in start.unavailable:
        why = start.unavailable["image"]
        yield Violation(
            f"It is not known whether the image was on the node before the start: {why}.",
            "unknown",
            "known",
        )


def _pulls_image(start: ColdStartRecord) -> bool:
    return any(each.name == IMAGE_PULLED for each in start.phases)
