"""Read-only bind mounts of the node."""

import ctypes
import errno
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from inferometer_fetch.cache.references import NodeMount

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND = 32, 4096
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_READ_ONLY = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
_ENTRY = r"/([0-9a-f]{64})/files"
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mounter(Protocol):
    """Makes and lists mounts."""

    def bind_read_only(self, source: Path, target: Path) -> None:
        """Mount the folder `source` at `target`, read-only; raise OSError."""

    def unmount(self, target: Path) -> None:
        """Remove the mount at a path; raise OSError."""

    def mounts(self) -> dict[str, NodeMount]:
        """Return the mounts of the node by their paths."""


class LinuxMounter:
    """Mounts by system calls. Needs CAP_SYS_ADMIN."""

    def __init__(self, root: Path) -> None:
        """`root` is the cache's folder; mounts in it stay in this process's own namespace."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._entries = (root / "entries").resolve()
        self._staging = root.absolute() / "staging"
        self._lock = threading.Lock()

    def bind_read_only(self, source: Path, target: Path) -> None:
        """Mount a mount that is read-only already.

        The kernel ignores "read-only" in a first bind mount, and a later change of it does not
        reach the other namespaces: the node, and with it the pods, would have a writable mount.
        """
        staging = self._staging
        with self._lock:
            staging.mkdir(exist_ok=True)
            self.unmount(staging)  # of a process that was killed here
            self._mount(os.fsencode(source), os.fsencode(staging), _MS_BIND)
            try:
                self._mount(None, os.fsencode(staging), _READ_ONLY)
                self._mount(os.fsencode(staging), os.fsencode(target), _MS_BIND)
            finally:
                self.unmount(staging)

    def unmount(self, target: Path) -> None:
        """Detach: a process of the pod may still have a file open."""
        if self._libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW):
            code = ctypes.get_errno()
            if code != errno.EINVAL:  # it is no mount
                raise OSError(code, os.strerror(code), str(target))

    def mounts(self) -> dict[str, NodeMount]:
        """Read the mounts of this process's namespace, which the node's kubelet shares."""
        # Tenants name folders that are mounted: any bytes, which need not be text.
        mountinfo = os.fsdecode(Path("/proc/self/mountinfo").read_bytes())
        found = parse_mounts(mountinfo, self._entries)
        found.pop(str(self._staging), None)
        return found

    def _mount(self, source: bytes | None, target: bytes, flags: int) -> None:
        if self._libc.mount(source, target, None, ctypes.c_ulong(flags), None):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fsdecode(target))


def parse_mounts(mountinfo: str, entries: Path) -> dict[str, NodeMount]:
    """Return the mounts in the text of /proc/self/mountinfo, the last one of each path.

    Only what is mounted from the folder `entries` is an entry: a pod can give a folder of its own
    volume any name, with any character but those that the kernel escapes: space, tab, newline,
    backslash and #.
    """
    lines = [_MountLine.parse(line) for line in mountinfo.split("\n") if line]
    around = [each for each in lines if entries.is_relative_to(each.target)]
    # The last one hides an earlier one at the same path.
    home = max(reversed(around), key=lambda each: len(Path(each.target).parts), default=None)
    found = {}
    for line in lines:
        entry = None
        if home is not None and line.device == home.device:
            place = Path(home.root) / entries.relative_to(home.target)
            entry = re.fullmatch(f"{re.escape(str(place))}{_ENTRY}", line.root)
        found[line.target] = NodeMount(None if entry is None else entry[1], line.is_read_only)
    return found


@dataclass(frozen=True, slots=True)
class _MountLine:
    """A line of mountinfo."""

    device: str
    root: str
    """The path in the file system that is mounted."""
    target: str
    is_read_only: bool

    @classmethod
    def parse(cls, line: str) -> "_MountLine":
        device, root, target, options = (_unescaped(word) for word in line.split(" ")[2:6])
        return cls(device, root, target, "ro" in options.split(","))


def _unescaped(word: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), word)
