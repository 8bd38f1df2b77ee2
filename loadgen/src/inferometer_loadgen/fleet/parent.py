"""How does a process of a fleet end with the one that started it?"""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Be killed when the parent dies, whatever it dies of, and leave Ctrl-C to it.

    Whoever calls this watches its standard input too, which ends with a parent that died before.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
