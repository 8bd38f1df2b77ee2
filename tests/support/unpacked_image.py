"""Unpacks an image, and runs commands in it as in a restricted pod."""

import json
import subprocess
from pathlib import Path
from typing import Any

_RESTRICTED = """
set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount -o remount,bind,ro "$0"
user=$1; shift
exec chroot --userspec="$user" --groups="" "$0" env --ignore-environment "$@"
"""
"""With a read-only root, an empty /tmp, as another user, and with the image's environment alone."""


class UnpackedImage:
    """The files of an image and what it says of itself."""

    def __init__(self, archive: Path, folder: Path) -> None:
        """Unpack an OCI archive into an empty folder."""
        layout, self.root = folder / "layout", folder / "root"
        for each in (layout, self.root):
            each.mkdir()
        _untar(archive, layout)
        (described,) = json.loads((layout / "index.json").read_text())["manifests"]
        manifest = json.loads(_blob(layout, described).read_text())
        self.description: dict[str, Any] = json.loads(
            _blob(layout, manifest["config"]).read_text()
        )["config"]
        for layer in manifest["layers"]:
            _untar(_blob(layout, layer), self.root)

    def run(self, *words: str, user: str = "10001:10001") -> str:
        """Run a command in a read-only root as a user and group; return what it prints."""
        alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        ended = subprocess.run(
            [*alone, "sh", "-c", _RESTRICTED, self.root, user, *self.description["Env"], *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


def _blob(layout: Path, described: dict[str, Any]) -> Path:
    return layout.joinpath("blobs", *str(described["digest"]).split(":"))


def _untar(archive: Path, folder: Path) -> None:
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
