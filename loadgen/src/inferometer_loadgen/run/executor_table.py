"""Table of executors by the name that the rows of scenario kinds use.

A new executor needs its own module, and a row here.
"""

from types import MappingProxyType

from inferometer_loadgen.run.accuracy_executor import open_accuracy_executor
from inferometer_loadgen.run.cold_start_executor import open_cold_start_executor
from inferometer_loadgen.run.executor import Executors
from inferometer_loadgen.run.layers_extension import LAYERS
from inferometer_loadgen.run.load_executor import open_load_executor
from inferometer_loadgen.run.profile_extension import PROFILE

EXECUTORS: Executors = MappingProxyType(
    {
        "accuracy": open_accuracy_executor,
        "coldStart": open_cold_start_executor,
        "load": open_load_executor,
        "profile": PROFILE.open,
        "layers": LAYERS.open,
    }
)
