"""The loop of a pool: works on keys that are due, and tries again what failed."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from inferometer_operator.cluster.errors import ApiError, ApiUnreachableError
from inferometer_operator.wiring.work_queue import WorkQueue

_CONFLICT_SECONDS = 0.5
_RETRY_SECONDS = 10.0
_INTERNAL_SECONDS = 60.0
_log = structlog.get_logger()


async def keep_reconciling(
    work: WorkQueue,
    reconcile: Callable[[str], Awaitable[float | None]],
    *,
    tasks: int,
    failed_event: str,
) -> None:
    """Reconcile the keys of a queue until cancelled, so many of them at a time.

    `reconcile` returns after how many seconds its key is due again, None if only after an event.
    An error of one key is logged, an unknown one as `failed_event`, and ends nothing else.
    """
    room = asyncio.Semaphore(tasks)

    async def step(uid: str) -> None:
        try:
            pause = await reconcile(uid)
        except ApiError as error:
            if error.code == 404:
                return  # An event of its deletion follows.
            if not error.conflict:
                _log.warning("api_request_failed", uid=uid, error=str(error))
            pause = _CONFLICT_SECONDS if error.conflict else _RETRY_SECONDS
        except ApiUnreachableError as error:
            _log.warning("api_request_failed", uid=uid, error=str(error))
            pause = _RETRY_SECONDS
        except Exception:  # noqa: BLE001 - logged with its traceback
            _log.exception(failed_event, uid=uid)
            pause = _INTERNAL_SECONDS
        finally:
            work.done(uid)
        if pause is not None:
            work.add(uid, pause)

    async with asyncio.TaskGroup() as group:
        while True:
            await room.acquire()
            task = group.create_task(step(await work.get()))
            task.add_done_callback(lambda _: room.release())
