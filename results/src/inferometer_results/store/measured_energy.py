"""The energy of an inference that runs reported, by model, batch size and processor."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import func, select

from inferometer_results.store.store import Store
from inferometer_results.store.tables import MEASUREMENT, RESULT


class EnergyKey(NamedTuple):
    """What measured energy belongs to."""

    model: str
    batch_size: int
    processor: str


def measured_energy(store: Store) -> Mapping[EnergyKey, int]:
    """Return the least energy of an inference on CPUs, in microjoules, over all VALID scenarios.

    Retracted results do not count, nor do machines without counters of energy.
    """
    energy = MEASUREMENT.c.microjoules_per_inference
    key = (RESULT.c.model, MEASUREMENT.c.batch_size, RESULT.c.cpu)
    query = (
        select(*key, func.min(energy).label("microjoules"))
        .join(MEASUREMENT, MEASUREMENT.c.result_number == RESULT.c.number)
        .where(
            energy.is_not(None),
            MEASUREMENT.c.verdict == "VALID",
            RESULT.c.retracted.is_(None),
            RESULT.c.device == "CPU",
        )
        .group_by(*key)
    )
    return {
        EnergyKey(row["model"], row["batch_size"], row["cpu"]): row["microjoules"]
        for row in store.select(query)
    }
