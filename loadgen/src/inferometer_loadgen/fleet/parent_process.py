"""Ties the lifetime of a fleet's process to that of its parent."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, and leave Ctrl-C to the parent.

    The caller also watches its standard input, which ends if the parent died before this call.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
