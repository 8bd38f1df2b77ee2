"""Drivers: send the load of one step in an open or a closed loop."""

from inferometer_loadgen.drive.closed_loop import ClosedLoop
from inferometer_loadgen.drive.contract import (
    NEVER,
    DrivenStep,
    LoadDriver,
    LoopContext,
    OpenConnection,
    RequestSource,
    StepObserver,
    StepProgress,
)
from inferometer_loadgen.drive.driver import Driver
from inferometer_loadgen.drive.open_loop import OpenLoop, Schedules

__all__ = [
    "NEVER",
    "ClosedLoop",
    "DrivenStep",
    "Driver",
    "LoadDriver",
    "LoopContext",
    "OpenConnection",
    "OpenLoop",
    "RequestSource",
    "Schedules",
    "StepObserver",
    "StepProgress",
]
