"""Measurement of one scenario, repeat by repeat and step by step, whatever executes its steps."""

from collections.abc import Sequence

from inferometer_api.plan.reports import RepeatsReport, ScenarioReport
from inferometer_api.results.result import ScenarioResult
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


async def measure_scenario(
    run: RunContext, executor: Executor, repeats: Sequence[ScenarioRepeat]
) -> StepEnd:
    """Measure, judge and report all repeats of one scenario; return how its last step ended.

    Raises what the executor raises, after the report of what was measured until then.
    """
    end = StepEnd(End.DONE)
    whole: list[ScenarioResult] = []
    cut_short_count = 0
    for repeat in repeats:
        execution = executor.start(repeat)
        cut_short: End | None = None
        restarted = False
        try:
            before = await run.servers.starts()
            try:
                end = await _measure_repeat(run, execution, repeat)
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
                    whole.append(result)
                else:
                    cut_short_count += 1
        if cut_short is not None:
            break
    if whole and len(whole) + cut_short_count > 1:
        run.reports.add(RepeatsReport(summary=summarize_repeats(whole, cut_short_count)))
    return end


async def _measure_repeat(
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
