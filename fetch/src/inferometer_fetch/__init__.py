"""Models and inputs brought onto this machine, checked."""
