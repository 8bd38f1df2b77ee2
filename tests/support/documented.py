"""Finds the commands on a page of the documentation, and runs them."""

import os
import re
import subprocess
from pathlib import Path

from docgen.files import CHECKOUT

from support.cluster.binaries import ensure


def commands(page: str, heading: str) -> str:
    """Return the fenced commands of a section of a page, without those of sections below it."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    section = text.partition(f"# {heading}\n")[2]
    assert section, f"{page} has no heading {heading!r}"
    section = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0]
    found = "".join(re.findall(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))
    assert found, f"{heading!r} of {page} gives no commands"
    return found


def follow(script: str, kubeconfig: Path) -> str:
    """Run commands as a reader would, in the checkout; return what they say if they succeed."""
    folders = {str(path.parent) for path in ensure(["kubectl", "helm"]).values()}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=CHECKOUT,
        env=os.environ
        | {
            "KUBECONFIG": str(kubeconfig),
            "PATH": os.pathsep.join(
                [*sorted(folders), str(CHECKOUT / ".venv" / "bin"), os.environ["PATH"]]
            ),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout
