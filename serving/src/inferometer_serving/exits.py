"""The exit codes of the server."""

EXIT_DONE = 0
EXIT_FAILED = 1
"""A fault that is not the asker's."""
EXIT_REFUSED = 2
"""What was asked cannot be run: the model, an operator, the device, a port, the command line."""
