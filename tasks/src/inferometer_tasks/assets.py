"""Files next to a manifest: read once, below its folder, with their checksums."""

import hashlib
import threading
from pathlib import Path
from typing import Any

from inferometer_api.manifest.model_manifest import Asset, ModelManifest
from inferometer_tasks.errors import TaskRefusedError

_MOST_BYTES = 64 * 1024 * 1024
_ASSET_FIELDS = ("labels", "vocabulary", "tokenizer")
"""Fields of steps that have the path of an asset."""


def path_within(folder: Path, name: str, what: str) -> Path:
    """Return a path below a folder; raises TaskRefusedError if it leaves it, or is no file."""
    path = folder / name
    check_within(folder, name, what)
    if not path.is_file():
        raise TaskRefusedError(f"{what} is {name!r}, but {path} is no file.")
    return path


def check_within(folder: Path, name: str, what: str) -> None:
    """Raise TaskRefusedError if a path leaves its folder."""
    root = folder.resolve()
    try:
        within = not Path(name).is_absolute() and (folder / name).resolve().is_relative_to(root)
    except (ValueError, RuntimeError) as error:  # a name that no file can have, a loop of links
        raise TaskRefusedError(f"{what} is {name!r}, which names no file: {error}.") from error
    if not within:
        raise TaskRefusedError(
            f"{what} is {name!r}, which leaves the folder {folder}: use a path below it."
        )


def _paths_in_steps(manifest: ModelManifest) -> tuple[str, ...]:
    """Return the paths of the assets that the steps name."""
    before = (step for each in manifest.inputs for step in each.steps)
    after = (step for each in manifest.outputs for step in each.steps)
    steps = (*before, *after)
    fields = (member for step in steps for _, member in step if member is not None)
    paths = (getattr(each, name, None) for each in fields for name in _ASSET_FIELDS)
    return tuple(path for path in paths if path is not None)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.tokenizers: dict[str, Any] = {}


class Assets:
    """The assets of one manifest, by their paths."""

    def __init__(self, manifest: ModelManifest, folder: Path) -> None:
        self._declared = {each.path: each for each in manifest.assets}
        self._manifest = manifest
        self._folder = folder
        self._lines: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._of_thread = _OfThread()

    def check(self) -> None:
        """Check that each asset that is declared or used is there and has its checksum."""
        for path in dict.fromkeys((*self._declared, *_paths_in_steps(self._manifest))):
            self._content(path)

    def lines(self, path: str) -> tuple[str, ...]:
        """Return the lines of a text: labels or characters."""
        if path not in self._lines:
            try:
                text = self._content(path).decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise TaskRefusedError(f"The asset {path!r} is not UTF-8 text.") from error
            # Only these two ends: a vocabulary may have other separators as characters.
            text = text.replace("\r\n", "\n")
            self._lines[path] = tuple(text.removesuffix("\n").split("\n"))
        return self._lines[path]

    def names(self, path: str) -> frozenset[str]:
        """Return the lines of a label file without blanks around them."""
        if path not in self._names:
            self._names[path] = frozenset(each.strip() for each in self.lines(path))
        return self._names[path]

    def tokenizer(self, path: str) -> Any:
        """Return a tokenizer of Hugging Face's library, which only this thread has.

        A call to it has settings, which the tokenizer keeps.
        """
        found = self._of_thread.tokenizers
        if path not in found:
            from tokenizers import Tokenizer  # noqa: PLC0415 - few models have texts

            try:
                found[path] = Tokenizer.from_str(self._content(path).decode())
            except Exception as error:  # the library raises nothing narrower
                raise TaskRefusedError(
                    f"The asset {path!r} is not a tokenizer.json that can be read: {error}."
                ) from error
        return found[path]

    def _content(self, path: str) -> bytes:
        asset = self._declared.get(path, Asset(path=path))
        if asset.text is not None:
            check_within(self._folder, path, "The asset")
            content = asset.text.encode()
        else:
            file = path_within(self._folder, path, "The asset")
            if file.stat().st_size > _MOST_BYTES:
                raise TaskRefusedError(
                    f"The asset {path!r} has more than {_MOST_BYTES // 2**20} MiB: labels, "
                    "vocabularies and tokenizers are smaller."
                )
            content = file.read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if asset.sha256 is not None and found != asset.sha256:
            raise TaskRefusedError(
                f"The asset {path!r} should have the sha256 {asset.sha256}, but has {found}: it "
                "is another file."
            )
        return content
