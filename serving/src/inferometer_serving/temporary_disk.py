"""The disk of the temporary folder, to which engines write graphs and profiles."""

import shutil
import tempfile


def free_bytes() -> int:
    """Return how many bytes the disk has free."""
    return shutil.disk_usage(tempfile.gettempdir()).free


def disk_advice() -> str:
    """Return how much the disk has free, and what to do if that is too little."""
    return (
        f"The disk of the temporary folder {tempfile.gettempdir()} has {free_bytes() / 2**20:.1f} "
        "MiB free: free more, or name another folder in TMPDIR."
    )
