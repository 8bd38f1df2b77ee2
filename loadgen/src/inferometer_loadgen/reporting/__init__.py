"""Reports, progress and metrics while a plan is executed."""
