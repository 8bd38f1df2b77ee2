"""How are node agents asked around each step, without disturbing what is measured?"""

from inferometer_loadgen.meter.meter import Meter, StepMeter

__all__ = ["Meter", "StepMeter"]
