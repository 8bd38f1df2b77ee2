"""Handover of the servers of a further repeat, from POST /targets to the session."""

import asyncio

from inferometer_api.plan.load_plan import ServerTargets


class TargetHandover:
    """Passes each repeat's servers on once; the same ones may be delivered again."""

    def __init__(self) -> None:
        self._repeat = 0
        """The repeat that is awaited, or the last one that was."""
        self._awaited: asyncio.Future[ServerTargets] | None = None
        self._taken: ServerTargets | None = None

    async def wait(self, repeat: int) -> ServerTargets:
        """Return the servers of a repeat as soon as they are delivered."""
        self._repeat, self._taken = repeat, None
        self._awaited = asyncio.get_running_loop().create_future()
        return await self._awaited

    def deliver(self, targets: ServerTargets) -> str:
        """Take the servers of the repeat that is awaited; return why they are not taken.

        The answer to an earlier delivery may have been lost: the same servers are taken again.
        """
        if targets == self._taken:
            return ""
        if self._awaited is None or self._taken is not None or targets.repeat != self._repeat:
            return f"The servers of repeat {targets.repeat} are not awaited."
        if self._awaited.done():
            return "The load generator ends."
        self._taken = targets
        self._awaited.set_result(targets)
        return ""
