"""The worker of one run: it reconciles when something is due, and retries after failures."""

import structlog

from inferometer_api.plan.deadlines import GONE_SECONDS
from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.cluster.lease import LeaseLostError
from inferometer_operator.reconcile.conditions import is_true, read_status
from inferometer_operator.reconcile.observed import Json
from inferometer_operator.reconcile.store_state import awaits_store
from inferometer_operator.wiring.dependencies import Dependencies
from inferometer_operator.wiring.observer import LOOK_SECONDS
from inferometer_operator.wiring.reconciler import Reconciler, RunGoneError
from inferometer_operator.wiring.run_failures import RunFailures
from inferometer_operator.wiring.run_queue import RunQueue

_NEVER = float("inf")

_log = structlog.get_logger()


class Worker:
    """Reconciles one run, one step at a time; a pool says when."""

    def __init__(self, dependencies: Dependencies, queue: RunQueue, run: Json) -> None:
        metadata = run["metadata"]
        self.uid: str = metadata["uid"]
        self._namespace: str = metadata["namespace"]
        self._dependencies = dependencies
        self._queue = queue
        self._log = _log.bind(namespace=self._namespace, run=metadata["name"], uid=self.uid)
        self._reconciler = Reconciler(dependencies, queue, run, self._log)
        self._failures = RunFailures(self._log)
        self._due = 0.0
        """When to reconcile the run next, unless something happens."""
        self._gone_at: float | None = None

    @property
    def run(self) -> Json:
        """The run as it was read or written last."""
        return self._reconciler.status.stored

    @property
    def is_gone(self) -> bool:
        """Whether the run no longer exists."""
        return self._gone_at is not None

    @property
    def is_over(self) -> bool:
        """Whether the run is finished, and nothing but its expiry is left to do."""
        return (
            not self._failures.count
            and not self._reconciler.status.is_refused
            and is_true(read_status(self._reconciler.status.stored), "Finished")
            and not awaits_store(self._reconciler.status.stored, self._dependencies.settings)
        )

    def wake(self) -> None:
        """Reconcile the run at the next step, whenever it was due."""
        self._due = 0.0

    def hear(self, run: Json) -> bool:
        """Take in an event of the run; return whether this worker did not know of it."""
        if not self._reconciler.hear(run):
            return False
        self.wake()
        return True

    def hear_deletion(self) -> None:
        """Take in that the run no longer exists."""
        if self._gone_at is None:
            self._gone_at = self._dependencies.clock()
            self._log.info("run_gone")
        self._dependencies.stats.remove_run(self.uid)
        self.drop()

    def drop(self) -> None:
        """Let other runs hold their results."""
        self._reconciler.result.drop()

    async def work(self) -> float | None:
        """Do what is due; return in how many seconds something is, None: after an event.

        Raises RunGoneError once the run and its pods are gone.
        """
        own, clock = self._reconciler, self._dependencies.clock
        if self._gone_at is None and not (own.load_address is not None and clock() < self._due):
            await self._reconcile_and_rest()
        elif self._gone_at is None and own.load_address is not None:
            observer = self._dependencies.observer
            if clock() >= own.memory.due and await observer.poll(own.load_address, own.memory):
                await self._reconcile_and_rest()
        if self._gone_at is not None:
            return self._wait_for_pods(self._gone_at)
        due = self._due if own.load_address is None else min(self._due, own.memory.due)
        return max(0.0, due - clock()) if due < _NEVER else None

    async def _reconcile_and_rest(self) -> None:
        # A deletion or an event that comes meanwhile makes it due at once.
        self._due, self._reconciler.load_address = _NEVER, None
        try:
            pause = await self._reconcile_safely()
        except RunGoneError:
            self.hear_deletion()
            return
        self._reconciler.result.release(pause)
        if pause is not None:
            self._due = min(self._due, self._dependencies.clock() + pause)

    def _wait_for_pods(self, gone_at: float) -> float:
        """Keep the slot of a deleted run until its pods are gone: they would disturb the next."""
        waits = (
            self._queue.is_admitted(self.uid)
            and self._dependencies.clock() < gone_at + GONE_SECONDS
            and self._dependencies.reader.list_pods(self._namespace, self.uid)
        )
        if not waits:
            raise RunGoneError
        return LOOK_SECONDS

    async def _reconcile_safely(self) -> float | None:
        """Reconcile once, whatever happens; return in how many seconds to reconcile again."""
        pause: float | None
        try:
            pause = await self._reconciler.reconcile()
        except (ApiError, ApiUnreachableError) as error:
            self._reconciler.is_stale = True
            pause = self._failures.note_request(error)
            if isinstance(error, ApiError) and error.conflict:
                # The run has only changed: it keeps its slot.
                return pause
        except (RunGoneError, LeaseLostError):
            raise
        except Exception as error:  # noqa: BLE001 - an error at one run must not end the others
            pause = await self._handle_internal_error(error)
        else:
            self._failures.clear()
            return pause
        await self._defer_if_not_begun()
        return pause

    async def _defer_if_not_begun(self) -> None:
        """Pass an unused slot to the next run, once it is certain that this one has not begun."""
        if self._queue.has_claim(self.uid):
            try:
                run = await self._reconciler.read()
            except (ApiError, ApiUnreachableError) as error:
                self._log.warning("api_request_failed", error=str(error))
            else:
                if read_status(run).start_time is None:
                    self._queue.defer(self.uid)

    async def _handle_internal_error(self, error: Exception) -> float | None:
        self._reconciler.is_stale = True
        if self._failures.note_internal(error):
            try:
                await self._reconciler.abort(error)
            except (ApiError, ApiUnreachableError) as api_error:
                self._log.warning("api_request_failed", error=str(api_error))
            else:
                return None
        return self._failures.pause_seconds
