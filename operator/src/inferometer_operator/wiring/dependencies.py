"""Holds what the workers of all runs share: the decision, the cluster, the clocks."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.results_client import ResultsClient
from inferometer_operator.cluster.server_clock import local_time
from inferometer_operator.cluster.writer import Writer
from inferometer_operator.reconcile.observed import Json, Observed
from inferometer_operator.reconcile.plan import Plan
from inferometer_operator.settings import Settings
from inferometer_operator.wiring.observer import Observer
from inferometer_operator.wiring.operator_stats import OperatorStats
from inferometer_operator.wiring.ownership import Ownership
from inferometer_operator.wiring.plan_executor import PlanExecutor


class Planner(Protocol):
    """The pure decision of `reconcile`."""

    def __call__(
        self, run: Json, observed: Observed, settings: Settings, now: datetime, token: str
    ) -> Plan:
        """Return what to do for the run now."""
        ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What a worker needs: the decision, the cluster, the clocks."""

    make_plan: Planner
    settings: Settings
    reader: Reader
    writer: Writer
    observer: Observer
    executor: PlanExecutor
    ownership: Ownership
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = local_time
    """The API server's time."""
    stats: OperatorStats = field(default_factory=OperatorStats)
    results: ResultsClient | None = None
    """None: no results service is configured."""
    result_slot: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """One run at a time holds its result in memory."""
