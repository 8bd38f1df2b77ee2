"""Which reasons do a run's conditions give, and what does each mean for a person?

The operator takes its words from here, the reference page is made from it.
"""

from inferometer_api.reason import Place, Reason, ReasonName
from inferometer_api.reasons_of_faults import OF_FAULTS
from inferometer_api.reasons_of_states import OF_STATES

__all__ = ["REASONS", "Place", "Reason", "ReasonName"]

REASONS: dict[ReasonName, Reason] = {**OF_STATES, **OF_FAULTS}
"""Every reason, in the order of the documentation."""
