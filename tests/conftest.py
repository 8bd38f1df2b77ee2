"""What holds for every test?"""

from hypothesis import settings

# A deadline for each example would be a limit on how busy the machine may be.
settings.register_profile("patient", settings.default, deadline=None)
settings.load_profile("patient")
