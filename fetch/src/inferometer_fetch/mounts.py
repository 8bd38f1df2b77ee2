"""Files on claims and ConfigMaps that are mounted into a pod."""

import errno
import os
import stat
from pathlib import Path

from inferometer_api.spec.address import CLAIMS, CONFIG_MAPS, Address
from inferometer_models.errors import ModelRefusedError

_LISTED = 5


def mounted_file(what: str, found: Address, sources: Path | None) -> Path:
    """Return the path of a file of a claim or a ConfigMap below the folder `sources`.

    Links are followed within the claim or the ConfigMap only. `what` names the file in messages:
    "model pvc://claim/m.onnx". Raises ModelRefusedError if there is no such file, it cannot be
    read, or a link leads out of its place.
    """
    if sources is None or found.file is None:
        raise ModelRefusedError(
            f"The {what} is in a cluster: {found.kind}:// is not available here. "
            "Name a file as file:PATH."
        )
    path = sources / found.file
    root = sources / (CLAIMS if found.kind == "pvc" else CONFIG_MAPS) / found.place
    try:
        mode = path.stat().st_mode
        inside = path.resolve().is_relative_to(root.resolve())
    except FileNotFoundError as error:
        raise ModelRefusedError(
            f"The {what} does not exist: {_contents_nearby(path, root)}."
        ) from error
    except OSError as error:
        raise _unreadable(what, error) from error
    if not inside:
        raise ModelRefusedError(
            f"The {what} is a link that leads out of its place: put the file itself there."
        )
    if not stat.S_ISREG(mode):
        raise ModelRefusedError(f"The {what} is not a regular file: name the file itself.")
    if not os.access(path, os.R_OK):
        raise _unreadable(what, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    return path


def _contents_nearby(path: Path, root: Path) -> str:
    """Return what the nearest existing folder holds instead, as a clause."""
    folder = path.parent
    while folder != root and not folder.is_dir():
        folder = folder.parent
    try:
        names = sorted(each.name for each in folder.iterdir() if not each.name.startswith(".."))
    except OSError as error:
        return f"its folder cannot be read ({error.strerror})"
    place = folder.relative_to(root)
    where = "its place" if place == Path() else f"the folder {place}"
    if not names:
        return f"{where} is empty"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{where} has {', '.join(names[:_LISTED])}{more}; correct the path"


def _unreadable(what: str, error: OSError) -> ModelRefusedError:
    denied = isinstance(error, PermissionError)
    advice = ": give user or group 10001 read permission" if denied else ""
    return ModelRefusedError(f"The {what} cannot be read: {error.strerror or error}{advice}.")
