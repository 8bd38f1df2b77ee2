"""The exit codes of the server."""

EXIT_DONE = 0
EXIT_FAILED = 1
"""An internal error."""
EXIT_REFUSED = 2
"""Cannot run because of the model, an operator, the device, a port or the command line."""
