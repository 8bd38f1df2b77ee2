"""Prepares node disks that already hold the images.

Unpacking images takes much of a cluster's start and is the same each time. It is done once into a
template, whose files the disks of nodes share by hard links: no process writes to the files of an
image or a layer, and containerd's own databases are copied.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support.cluster import configurations, tiny_image
from support.cluster.availability import cni_folder
from support.cluster.binaries import binary, cache_folder
from support.cluster.configurations import CONTAINERD, NODE_HOME, PAUSE_IMAGE
from support.cluster.processes import Group

_MAX_TEMPLATES = 4
"""Templates that stay: a gigabyte each."""
_UNFINISHED = ".unfinished"

OWN_PLACES = f"""\
set -eu
mount -n -t tmpfs tmpfs /mnt
mkdir /mnt/{Path(NODE_HOME).name} /mnt/lock
mount -n --bind "$1" /mnt/{Path(NODE_HOME).name}
mount -n --move /mnt /run
"""
"""The beginning of a shell script that hides what is the machine's in /run, and shows the folder
that is its first argument where every node finds its own."""

_IMPORT = f"""\
{OWN_PLACES}
shift
containerd --config {NODE_HOME}/containerd.toml &
until ctr --address={CONTAINERD} version; do sleep 0.1; done
for archive; do
    ctr --namespace=k8s.io --address={CONTAINERD} images import "--snapshotter=$SNAPSHOTTER" "$archive"
done
kill %1
wait %1 || true
"""  # noqa: E501 - one command of a shell


def snapshotter(folder: Path) -> str:
    """Return overlayfs but where the folder is itself on one, as in many a container."""
    kind = subprocess.run(
        ["stat", "--file-system", "--format=%T", folder], capture_output=True, text=True, check=True
    ).stdout.strip()
    return "native" if kind == "overlayfs" else "overlayfs"


def lay(archives: Sequence[Path], folder: Path) -> None:
    """Make `folder` a disk of containerd's that holds the pause image and those of the archives."""
    templates = cache_folder() / "node-disks"
    templates.mkdir(parents=True, exist_ok=True)
    template = templates / _key(archives)
    with _lock(template):
        if not template.exists():
            _prepare(archives, template)
        os.utime(template)
        subprocess.run(["cp", "--archive", "--link", f"{template}/.", folder], check=True)
    _drop_oldest(templates)
    for database in folder.glob("*/*.db"):
        own = database.with_suffix(".own")
        shutil.copy2(database, own)
        own.replace(database)


def _prepare(archives: Sequence[Path], template: Path) -> None:
    """Let a containerd of its own unpack everything; only a whole template gets its name."""
    home = template.with_suffix(_UNFINISHED)
    shutil.rmtree(home, ignore_errors=True)
    (home / "containerd").mkdir(parents=True)
    kind = snapshotter(home)
    (home / "containerd.toml").write_text(configurations.containerd(str(cni_folder()), kind))
    pause = tiny_image.pack(binary("pause"), PAUSE_IMAGE, home / "pause.tar")
    group = Group(home)
    namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words = ["env", f"SNAPSHOTTER={kind}", "unshare", *namespaces, "--propagation", "private"]
    arguments = [str(path) for path in (home, pause, *archives)]
    script = ["/bin/bash", "-c", _IMPORT, "bash", *arguments]
    process = group.start("import", [*words, *script])
    try:
        if process.wait() != 0:
            raise RuntimeError(f"The images {archives} were not unpacked: {process.tail()}")
    finally:
        group.stop()
    (home / "containerd").rename(template)
    shutil.rmtree(home)


def _key(archives: Sequence[Path]) -> str:
    """Return a hash of what the images are and of who unpacked them."""
    digest = hashlib.sha256(binary("pause").read_bytes())
    version = subprocess.run(["containerd", "--version"], capture_output=True, check=True)
    digest.update(version.stdout)
    for archive in archives:
        with tarfile.open(archive) as content:
            index = content.extractfile("index.json")
            if index is None:
                raise RuntimeError(f"{archive} was to be an OCI archive and has no index.json.")
            digest.update(index.read())
    return digest.hexdigest()[:16]


def _drop_oldest(templates: Path) -> None:
    folders = [path for path in templates.iterdir() if path.is_dir()]
    whole = [path for path in folders if path.suffix != _UNFINISHED]
    newest = sorted(whole, key=lambda path: path.stat().st_mtime)[-_MAX_TEMPLATES:]
    for path in folders:
        if path not in newest:
            # A process that makes or takes it holds its lock.
            with suppress(BlockingIOError), _lock(path.with_suffix(""), fcntl.LOCK_NB):
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _lock(template: Path, options: int = 0) -> Iterator[None]:
    """Hold the right to make, take or remove a template."""
    with template.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | options)
        yield
