"""Error of a fetch that may succeed later."""


class FetchFailedError(Exception):
    """The network or a remote store failed; the message is a sentence for a person."""
