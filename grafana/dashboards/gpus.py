"""The reasons that hold down the clocks of GPUs."""

from collections.abc import Callable

from grafana_foundation_sdk.builders.statetimeline import Panel

from grafana.dashboards import palette
from grafana.dashboards.panels import Query, states
from grafana.dashboards.promql import of
from inferometer_api.metrics import definitions as m


def throttling(where: str, narrowed: Callable[[str], str] = str) -> Panel:
    """Return the timeline of the reasons; a GPU that none holds down stands there with `none`.

    `where` selects the GPUs' series, which `narrowed` may narrow further.
    """
    held = f"max by (node, gpu, reason) ({narrowed(of(m.GPU_THROTTLED, where))})"
    free = f"0 * max by (node, gpu) ({narrowed(of(m.GPU_INFO, where))})"
    none = f'label_replace({free}, "reason", "none", "", "")'
    return states(
        "GPU throttling",
        "The reasons for a GPU's lower clock, from inferometer_gpu_throttled. SwPowerCap: its "
        "power limit; Thermal: its cooling; Slowdown: the hardware protects itself, check the "
        "machine. A result under throttling is valid for that state only.",
        {0: ("no", palette.ASKED), 1: ("held down", palette.BAD)},
        Query(f"{held} or on (node, gpu) {none}", "{{node}} {{gpu}} {{reason}}"),
    )
