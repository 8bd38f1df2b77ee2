"""The colours of things, the same on every dashboard.

Names are Grafana's, so that they suit its light and its dark theme.
"""

GOOD = "green"
DOUBTFUL = "orange"
BAD = "red"
PLAIN = "text"
ASKED = "#8e8e8e"
ACHIEVED = "blue"
SECOND = "purple"

PERCENTILES = {"p50": "green", "p90": "yellow", "p99": "orange", "p99.9": "red"}
PHASES = {
    "Pending": "#6e6e6e",
    "Suspended": "purple",
    "Queued": "yellow",
    "Starting": "blue",
    "Measuring": "green",
    "Complete": "dark-green",
    "Failed": "red",
}
ENERGY = {"Package": "orange", "Dram": "purple", "Gpu": "green"}
STAGES = {
    "WaitingForWorkers": "#4a4a4a",
    "WaitingForServer": "#6e6e6e",
    "WaitingForRestart": "#8a8a8a",
    "Preparing": "purple",
    "Idle": "blue",
    "WarmUp": "yellow",
    "Measuring": "green",
    "Draining": "orange",
}
"""In their order; a stage's number on the timeline is its place here, from 1."""
