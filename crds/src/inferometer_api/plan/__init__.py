"""The carrying out of a run: command lines, plans, reports and cluster objects."""
