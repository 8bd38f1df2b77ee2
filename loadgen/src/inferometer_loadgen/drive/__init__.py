"""How is a load driven at a server, and when does it end?"""

from inferometer_loadgen.drive.closed_loop import ClosedLoop
from inferometer_loadgen.drive.contract import (
    LoadDriver,
    LoopContext,
    OpenConnection,
    Progress,
    RequestSource,
)
from inferometer_loadgen.drive.driver import Driver
from inferometer_loadgen.drive.open_loop import OpenLoop, Schedules

__all__ = [
    "ClosedLoop",
    "Driver",
    "LoadDriver",
    "LoopContext",
    "OpenConnection",
    "OpenLoop",
    "Progress",
    "RequestSource",
    "Schedules",
]
