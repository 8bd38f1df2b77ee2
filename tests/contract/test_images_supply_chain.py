"""Everything that is installed is pinned by a hash, and what the images hold can be listed."""

import json
import re
import socket
import threading
import tomllib
from pathlib import Path

import pytest
from images.__main__ import main
from images.catalogue import IMAGES, ROOT
from images.supply_chain import locked_packages, write_bills
from packaging.requirements import Requirement
from packaging.version import Version

from support.waiting import join_thread

BOOTSTRAP = (ROOT / "bootstrap.txt").read_text()
PINNED = dict(
    re.findall(r"^([\w-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", BOOTSTRAP, re.MULTILINE)
)
CLOSED_PORT = "http://127.0.0.1:9"


def test_each_step_before_the_lock_is_pinned_by_hashes() -> None:
    """Pip installs uv and the build back end from bootstrap.txt, and refuses any other file."""
    requirements = [line for line in BOOTSTRAP.splitlines() if re.match(r"\w", line)]
    assert len(requirements) == len(PINNED)
    for file in ("Makefile", "Dockerfile"):
        text = (ROOT / file).read_text()
        installed = re.findall(r"(?:bin|BIN\))/pip install (.+)$", text, re.MULTILINE)
        assert installed
        assert all("--require-hashes --requirement bootstrap.txt" in each for each in installed)


def test_the_build_back_end_is_the_pinned_one() -> None:
    """Images and `make install` build our package without fetching a back end that has no hash."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for required in map(Requirement, project["build-system"]["requires"]):
        assert required.specifier.contains(Version(PINNED[required.name]))
    dockerfile, makefile = (ROOT / "Dockerfile").read_text(), (ROOT / "Makefile").read_text()
    assert dockerfile.count("uv pip install") == dockerfile.count("--no-build-isolation")
    assert makefile.count("$(UV) sync") == makefile.count("--no-build-isolation")


@pytest.mark.parametrize("name", IMAGES)
def test_the_bill_of_materials_lists_what_an_image_installs(name: str, tmp_path: Path) -> None:
    """CycloneDX names each locked package with its version and hashes, without omitted ones."""
    group, omitted = locked_packages(ROOT, name)
    (file,) = write_bills(ROOT, [name], tmp_path)
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    listed = {each["name"]: each for each in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [each for each in project["dependency-groups"][group] if isinstance(each, str)]
    assert {Requirement(each).name for each in wanted} <= set(listed)
    assert not set(omitted) & set(listed)
    for each in listed.values():
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        files = each["externalReferences"]
        assert all(known["hashes"][0]["alg"] == "SHA-256" for known in files)


def test_an_audit_whose_proxy_answers_no_http_fails_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What listens there may be anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer_nonsense, args=(listener,), daemon=True)
        thread.start()
        service = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert main(["audit", "operator", "--service", service]) == 1
        join_thread(thread, "the answer of the service")
    assert f"Nothing was audited: the vulnerability service {service}" in capsys.readouterr().err


def _answer_nonsense(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"SSH-2.0-something\r\n")


def test_an_audit_without_its_service_fails_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A service that cannot be reached is an error, never an empty list of vulnerabilities."""
    assert main(["audit", "operator", "--service", CLOSED_PORT]) == 1
    assert (
        f"Nothing was audited: the vulnerability service {CLOSED_PORT}" in capsys.readouterr().err
    )
