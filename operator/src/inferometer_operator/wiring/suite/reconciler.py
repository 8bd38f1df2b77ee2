"""The reconciliation of one suite: plan, decide, create runs or executions, write the status."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog

from inferometer_api.suite.comparisons import BaselineCell
from inferometer_api.suite.figures import CellKey
from inferometer_api.suite.outcome import suite_outcome
from inferometer_api.suite.plan_suite import (
    ANYWHERE,
    InvalidSuiteError,
    PlannedRun,
    SuitePlan,
    System,
    plan_suite,
)
from inferometer_api.suite.schedule import ScheduleError, check_schedule
from inferometer_api.suite.spec import BenchmarkSuite
from inferometer_api.suite.status import AnchorPairs, SuiteStatus
from inferometer_api.suite.systems import (
    find_systems,
    left_out_nodes,
    recorded_name,
    systems_named,
)
from inferometer_api.timestamps import format_time, parse_time
from inferometer_operator.cluster.errors import ApiError, NodesForbiddenError
from inferometer_operator.manifests.suite_children import execution, suite_run
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.plan import DeletionTarget
from inferometer_operator.reconcile.raw_objects import InvalidObjectError, read_object
from inferometer_operator.reconcile.suite.cells import SuiteObserved, decide, run_outcomes
from inferometer_operator.reconcile.suite.draft import (
    SuiteDraft,
    corrected_status,
    end_event,
    is_true,
    read_suite_status,
)
from inferometer_operator.reconcile.suite.executions import decide_schedule
from inferometer_operator.reconcile.suite.reuse import lacking_for_reuse
from inferometer_operator.reconcile.suite.status_size import fit_suite_status, least_suite_status
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.suite.delivery import OutcomeDelivery, is_deliverable
from inferometer_operator.wiring.suite.prefetch import LOOK_AGAIN_SECONDS, SuitePreparation
from inferometer_operator.wiring.suite.reuse import SuiteReuse
from inferometer_operator.wiring.suite.store import SuiteStore, suite_of

_NEVER_ACCEPTED = frozenset({400, 422})
_NO_REFUSALS = frozenset({401, 404})
"""The operator's token has expired; the suite is gone."""
_TAKEN = 409
_RETRY_SECONDS = 5.0
_MOST_WAIT_SECONDS = 300.0
"""The API server's clock may be set: times of a schedule are looked at again by then."""
_log = structlog.get_logger()


class _RefusedSuiteError(Exception):
    """The suite cannot be carried out; the message says why."""

    def __init__(self, reason: Any, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class SuiteReconciler:
    """Works on one suite; the plan is made once for each generation of its spec."""

    dependencies: Dependencies
    store: SuiteStore
    uid: str
    _plan: SuitePlan | None = None
    _planned_generation: int | None = None
    _systems_found: list[str] = field(default_factory=list)
    _systems_note: str = ""
    _refused: dict[str, str] = field(default_factory=dict)
    _refusal: str = ""
    _delivery: OutcomeDelivery = field(default_factory=OutcomeDelivery)
    _reuse: SuiteReuse = field(default_factory=SuiteReuse)
    _preparation: SuitePreparation = field(default_factory=SuitePreparation)

    async def reconcile(self) -> float | None:
        """Do what is due; return in how many seconds to look again, None: after an event."""
        raw = self.store.suites.get(self.uid)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            return None
        generation = raw["metadata"].get("generation")
        status = corrected_status(read_suite_status(raw), generation)
        is_over = is_true(status, "Finished")
        if is_over and (self.dependencies.results is None or not is_deliverable(raw, status)):
            return None
        if await self.dependencies.ownership.other_operator(raw):
            return 15.0
        draft = SuiteDraft(status, self.dependencies.now(), generation)
        if own := self.dependencies.ownership.own:
            draft.update(operator=own)
        try:
            return await self._reconcile_accepted(raw, draft)
        except _RefusedSuiteError as refusal:
            if not is_over:
                draft.refuse(refusal.reason, str(refusal))
                await self._write(raw, draft.status)
            return None
        except NodesForbiddenError as error:
            if not is_over:
                draft.wait_for_right(str(error))
                await self._write(raw, draft.status)
            return _RETRY_SECONDS

    async def _reconcile_accepted(self, raw: Json, draft: SuiteDraft) -> float | None:
        """Do what is due for a suite that can be carried out; raise with why it cannot."""
        suite = _parse(raw, is_accepted=is_true(draft.status, "Accepted"))
        starts_with_reuse = suite.spec.reuse and not draft.status.states
        if starts_with_reuse and (lacking := lacking_for_reuse(self.dependencies.settings)):
            raise _RefusedSuiteError("NotAvailable", lacking)
        if suite.spec.schedule is not None:
            return await self._reconcile_schedule(raw, suite, draft)
        plan = await self._update_plan(raw, suite, draft)
        if is_true(draft.status, "Finished"):
            return await self._deliver(raw, suite, plan)
        return await self._reconcile_cells(raw, suite, plan, draft)

    async def _reconcile_cells(
        self, raw: Json, suite: BenchmarkSuite, plan: SuitePlan, draft: SuiteDraft
    ) -> float | None:
        runs = self.store.runs.get(self.uid, {})
        if suite.spec.reuse:
            fault = await self._reuse.look_up(self.dependencies, raw, plan, draft.status)
            if fault and not draft.status.states:
                draft.wait_for_store(fault)
                await self._write(raw, draft.status)
                return _RETRY_SECONDS
        observed = SuiteObserved(
            {name: run.outcome for name, run in runs.items()},
            self._refused,
            self._refusal,
            self._history(raw),
            self._baseline(raw, suite),
            self._reuse.outcomes,
            self._reuse.note,
            await self._prepare(raw, suite, plan, draft),
            self._preparation.canary.note,
            self._systems_note,
        )
        # The gate judges a thousand runs in seconds.
        decision = await asyncio.to_thread(decide, suite.spec, plan, draft, observed)
        raw = await self._write(raw, decision.status)
        for name in decision.cancel:
            await self.dependencies.writer.cancel_run(raw["metadata"]["namespace"], name)
        self._refusal = ""
        for index in decision.create:
            if not await self._create_run(raw, plan.runs[index], index):
                return _RETRY_SECONDS
        # The next decision records what was created; a suite that is over is delivered.
        if decision.create or is_true(decision.status, "Finished"):
            return 0.0
        return LOOK_AGAIN_SECONDS if observed.preparing else None

    async def _prepare(
        self, raw: Json, suite: BenchmarkSuite, plan: SuitePlan, draft: SuiteDraft
    ) -> str:
        """Prepare the nodes before the first run; return what is waited for."""
        begun = self.store.runs.get(self.uid) or draft.has_begun
        if begun or suite.spec.suspend or suite.spec.cancel:
            return ""
        return await self._preparation.advance(self.dependencies, raw, plan)

    async def _deliver(self, raw: Json, suite: BenchmarkSuite, plan: SuitePlan) -> float | None:
        """Deliver the outcome of a suite that is over; return when to try again."""
        client, status = self.dependencies.results, read_suite_status(raw)
        if client is None or plan.sha256 != status.plan_sha256:
            return None
        pause = self._delivery.pause_seconds
        if suite.spec.reuse and await self._reuse.look_up(self.dependencies, raw, plan, status):
            return pause
        runs = {name: run.outcome for name, run in self.store.runs.get(self.uid, {}).items()}
        observed = SuiteObserved(runs, self._refused, reused=self._reuse.outcomes)
        outcomes = run_outcomes(plan, status.states, observed)
        finished_at = status.completion_time or format_time(self.dependencies.now())
        outcome = suite_outcome(plan, outcomes, status.gate, finished_at)
        page = await self._delivery.attempt(client, raw, outcome)
        if not page:
            return pause
        await self._write(raw, status.model_copy(update={"page": page}))
        return None

    async def _create_run(self, raw: Json, planned: PlannedRun, position: int) -> bool:
        """Create a run; return whether the next one may be created."""
        manifest = suite_run(planned, position, raw)
        refusal = await self.dependencies.writer.create_suite_child(manifest)
        if isinstance(refusal, ApiError):
            return await self._handle_refusal(raw, planned, refusal)
        self.store.put_run(refusal)
        _log.info("suite_run_created", suite=raw["metadata"]["name"], run=planned.name)
        return True

    async def _handle_refusal(self, raw: Json, planned: PlannedRun, refusal: ApiError) -> bool:
        if refusal.code == _TAKEN:
            namespace = raw["metadata"]["namespace"]
            found = await self.dependencies.reader.get("BenchmarkRun", namespace, planned.name)
            if found is not None and suite_of(found) == self.uid:
                # It was created before, and the answer or the event is late.
                self.store.put_run(found)
                return True
            if found is not None:
                self._refusal = f"another object has the name {planned.name}."
                return False
        if refusal.code in _NEVER_ACCEPTED:
            self._refused[planned.name] = refusal.message
            return True
        self._refusal = f"{refusal.message.rstrip('.')}."
        return False

    async def _reconcile_schedule(
        self, raw: Json, suite: BenchmarkSuite, draft: SuiteDraft
    ) -> float | None:
        metadata = raw["metadata"]
        created = parse_time(metadata.get("creationTimestamp")) or datetime.now(UTC)
        if self._plan is None or self._planned_generation != metadata.get("generation"):
            # Every cell is checked before its time comes.
            await self._update_plan(raw, suite, draft)
        executions = self.store.executions_of(self.uid)
        decision = decide_schedule(metadata["name"], created, suite.spec, draft, executions)
        if decision.create:
            refusal = await self.dependencies.writer.create_suite_child(
                execution(decision.create, raw)
            )
            if isinstance(refusal, ApiError) and refusal.code != _TAKEN:
                raise refusal
            if not isinstance(refusal, ApiError):
                self.store.put_suite(refusal)
                _log.info(
                    "suite_execution_created", suite=metadata["name"], execution=decision.create
                )
        await self._write(raw, decision.status)
        for each in decision.cancel:
            await self.dependencies.writer.cancel_suite(metadata["namespace"], each.name)
        for each in decision.delete:
            target = DeletionTarget("BenchmarkSuite", each.name, each.uid)
            await self.dependencies.writer.delete(metadata["namespace"], target)
        wait = decision.look_again_seconds
        return _MOST_WAIT_SECONDS if wait is None else min(wait + 0.05, _MOST_WAIT_SECONDS)

    async def _update_plan(self, raw: Json, suite: BenchmarkSuite, draft: SuiteDraft) -> SuitePlan:
        """Return the plan of a suite, and record its systems; raise with why there is none."""
        generation = int(raw["metadata"].get("generation") or 0)
        if self._plan is None or self._planned_generation != generation:
            systems = await self._systems(suite, draft)
            try:
                # A thousand cells take a second.
                self._plan = await asyncio.to_thread(plan_suite, suite, systems)
            except InvalidSuiteError as error:
                text = " ".join((*error.problems, self._systems_note)).rstrip()
                raise _RefusedSuiteError("InvalidSpec", text) from error
            self._planned_generation = generation
            self._systems_found = list(map(recorded_name, systems))
        if suite.spec.systems is not None and suite.spec.schedule is None:
            draft.update(systems=self._systems_found)
        return self._plan

    async def _systems(self, suite: BenchmarkSuite, draft: SuiteDraft) -> Sequence[System]:
        wanted = suite.spec.systems
        if wanted is None:
            return (ANYWHERE,)
        if not self.dependencies.settings.read_nodes:
            raise _RefusedSuiteError(
                "NotAvailable",
                "spec.systems: the operator may not read nodes (its setting readNodes is false). "
                "Set readNodes=true in the chart's values, or place runs by an axis that sets "
                "spec.server.placement.nodeSelector.",
            )
        if suite.spec.schedule is not None:
            # Its executions find their nodes, which may be absent until then.
            return (ANYWHERE,)
        nodes = await self.dependencies.reader.list_nodes()
        if draft.status.systems:
            return systems_named(wanted, draft.status.systems, nodes)
        tolerations = suite.spec.template.spec.server.placement.tolerations
        self._systems_note = left_out_nodes(wanted, nodes, tolerations)
        return find_systems(wanted, nodes, tolerations)

    def _history(self, raw: Json) -> Sequence[AnchorPairs]:
        scheduled = self.store.scheduled_by(raw)
        return [] if scheduled is None else read_suite_status(scheduled).anchors

    def _baseline(self, raw: Json, suite: BenchmarkSuite) -> Mapping[CellKey, BaselineCell] | None:
        named = None if suite.spec.baseline is None else suite.spec.baseline.suite
        return None if named is None else self.store.baseline(raw, named)

    async def _write(self, raw: Json, status: SuiteStatus) -> Json:
        """Write the status if it differs; report the end as an event."""
        before = read_suite_status(raw)
        has_ended = is_true(status, "Finished") and not is_true(before, "Finished")
        if has_ended:
            # For its schedule: what is cut from every status would never arm the gate.
            self.store.anchors[self.uid] = status.anchors
        if before == status or before == (status := fit_suite_status(status)):
            return raw
        written = await self._apply(raw, before, status)
        self.store.put_suite(written)
        if has_ended:
            _log.info("suite_ended", suite=raw["metadata"]["name"], phase=status.phase)
            await self.dependencies.writer.create_event(written, end_event(status))
        return written

    async def _apply(self, raw: Json, before: SuiteStatus, status: SuiteStatus) -> Json:
        """Write a status, or the least one if the API server refuses it for good."""
        writer = self.dependencies.writer
        try:
            return await writer.apply_status(raw, status)
        except ApiError as error:
            if error.passing or error.code in _NO_REFUSALS:
                raise
            _log.warning("status_refused", suite=raw["metadata"]["name"], error=str(error))
            least = least_suite_status(status, error.message)
            # Without this one nothing begins: another operator would not know.
            return raw if least == before else await writer.apply_status(raw, least)


def _parse(raw: Json, *, is_accepted: bool) -> BenchmarkSuite:
    try:
        suite = read_object(raw, BenchmarkSuite, is_accepted=is_accepted)
        if suite.spec.schedule is not None:
            check_schedule(suite.spec.schedule)
    except (InvalidObjectError, ScheduleError) as error:
        raise _RefusedSuiteError("InvalidSpec", str(error)) from error
    return suite
