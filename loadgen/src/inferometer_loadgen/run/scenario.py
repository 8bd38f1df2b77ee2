"""Measurement of one repeat of a scenario, step by step, whatever executes its steps."""

from dataclasses import dataclass, field

from inferometer_api.plan.reports import ScenarioReport
from inferometer_api.results.result import ScenarioResult
from inferometer_api.results.search import RepeatScope, RepeatSummary
from inferometer_loadgen.run.executor import (
    CUTS_SHORT,
    Executor,
    RepeatExecution,
    RunContext,
    ScenarioRepeat,
    StepEnd,
)
from inferometer_loadgen.run.faults import cut_short_by
from inferometer_loadgen.schedule.steps import End
from inferometer_loadgen.search.repeats import summarize_repeats
from inferometer_loadgen.server.servers import is_restarted


@dataclass(slots=True)
class ScenarioRepeats:
    """The results of all repeats of one scenario so far."""

    whole: list[ScenarioResult] = field(default_factory=list)
    cut_short_count: int = 0

    def summary(self, scope: RepeatScope) -> RepeatSummary | None:
        """Return the statistics over the repeats; None of a scenario that was measured once."""
        if not self.whole or len(self.whole) + self.cut_short_count < 2:
            return None
        return summarize_repeats(self.whole, self.cut_short_count, scope=scope)


async def measure_repeat(
    run: RunContext, executor: Executor, repeat: ScenarioRepeat, results: ScenarioRepeats
) -> StepEnd:
    """Measure, judge and report one repeat of a scenario; return how its last step ended.

    Raises what the executor raises, after the report of what was measured until then.
    """
    execution = executor.start(repeat)
    cut_short: End | None = None
    restarted = False
    try:
        before = await run.servers.starts()
        try:
            end = await _measure_steps(run, execution, repeat)
            cut_short = end.why if end.why in CUTS_SHORT else None
        except BaseException as error:
            cut_short = cut_short_by(error)
            raise
        if cut_short is None:
            restarted = is_restarted(before, await run.servers.starts())
    finally:
        result = execution.judge(cut_short, server_restarted=restarted)
        if result is not None:
            run.reports.add(ScenarioReport(scenario=result))
            if cut_short is None:
                results.whole.append(result)
            else:
                results.cut_short_count += 1
    return end


async def _measure_steps(
    run: RunContext, execution: RepeatExecution, repeat: ScenarioRepeat
) -> StepEnd:
    """Measure the steps of one repeat until there is no more, or one is cut short."""
    end = StepEnd(End.DONE)
    while end.why not in CUTS_SHORT and (step := execution.next_step()) is not None:
        if run.interruption.requested:  # after the last answer of the step before
            return StepEnd(End.INTERRUPTED)
        run.progress.preparing(repeat.scenario.name, step.label, repeat.index, repeat.repeat)
        end = await execution.run_step(step)
    return end
