"""Bills of materials of the images, and known vulnerabilities of their packages.

Both come from uv.lock, so that no image has to be built.
"""

import http.client
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from images.builder import CommandError, run, say
from images.catalogue import IMAGES

VULNERABILITY_SERVICE = "https://api.osv.dev/v1/query"
_UV = Path(sys.executable).with_name("uv")
_REACHABLE_SECONDS = 20.0


def write_bills(root: Path, names: list[str], folder: Path) -> list[Path]:
    """Write the CycloneDX bill of materials of each image's Python packages; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in names:
        file = folder / f"{name}.cdx.json"
        words = ("--format", "cyclonedx1.5", "--preview-features", "sbom-export")
        file.write_text(_export(root, name, *words), encoding="utf-8")
        say(f"Wrote {file}.")
        files.append(file)
    return files


def audit(root: Path, names: list[str], service: str = VULNERABILITY_SERVICE) -> bool:
    """Print the known vulnerabilities of the images' packages; return whether there are none.

    Raises CommandError if the service cannot be reached.
    """
    _require_service(service)
    clean = True
    for name in names:
        say(f"Auditing the packages of {name} ...")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "requirements.txt"
            file.write_text(_export(root, name, "--format", "requirements.txt"))
            words: list[str | Path] = [
                _UV,
                "run",
                "--quiet",
                "--locked",
                "--isolated",
                "--only-group",
                "audit",
            ]
            words += ["pip-audit", "--requirement", file, "--no-deps", "--disable-pip"]
            words += ["--vulnerability-service", "osv", "--osv-url", service]
            ended = subprocess.run(words, cwd=root, check=False)  # noqa: S603 - words of our own
        clean = clean and ended.returncode == 0
    return clean


def locked_packages(root: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the dependency group that the Dockerfile installs into an image, and what it omits."""
    dockerfile = (root / "Dockerfile").read_text()
    stage = dockerfile.partition(f" AS {IMAGES[name]}-packages\n")[2].partition("\nFROM ")[0]
    (group,) = re.findall(r"--only-group (\S+)", stage)
    return group, tuple(re.findall(r"--no-install-package (\S+)", stage))


def _export(root: Path, name: str, *words: str) -> str:
    group, omitted = locked_packages(root, name)
    left_out = [word for package in omitted for word in ("--no-emit-package", package)]
    command: list[str | Path] = [_UV, "export", "--quiet", "--locked", "--only-group", group]
    command += [*left_out, *words]
    return run(command, folder=root)


def _require_service(service: str) -> None:
    """Raise CommandError unless the service answers, with an error too."""
    try:
        with urllib.request.urlopen(service, timeout=_REACHABLE_SECONDS):  # noqa: S310 - https
            pass
    except urllib.error.HTTPError:
        return
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(
            f"Nothing was audited: the vulnerability service {service} cannot be reached "
            f"({getattr(error, 'reason', error)}). Run 'make audit' on a machine with access to it."
        ) from error
