"""The parts of the time that servers spend on a request."""

from inferometer_api.results.result import ServerTime


def server_parts(spent: ServerTime) -> dict[str, int]:
    """Return the mean nanoseconds of each part by its name, in the order of a request."""
    return {
        "queue": spent.queue_nanoseconds,
        "compute input": spent.compute_input_nanoseconds,
        "compute": spent.compute_infer_nanoseconds,
        "compute output": spent.compute_output_nanoseconds,
    }
