"""Certificates and headers of a run file are used, relative to it, or refused before a start."""

from pathlib import Path
from typing import Any

from support.local_runs import done
from support.oracle_http import MODEL
from support.oracle_process import OracleProcess, oracle_process
from support.oracle_server import Listen
from support.tls_party import files

CALM: dict[str, Any] = {"server": {"targetQps": 20}}
SECRET = "s3cr3t-t0ken"  # noqa: S105 - no secret of anybody's
TLS = {
    "caFile": "authority.pem",
    "clientCertificateFile": "client.pem",
    "clientKeyFile": "client-key.pem",
}


def _spec(oracle: OracleProcess, **tls: str) -> dict[str, Any]:
    return {
        "model": {"name": MODEL},
        "server": {"runtime": "External", "external": {"url": oracle.url("GRPC")}},
        "load": {"protocol": "GRPC", "tls": TLS | tls, "headersFile": "headers.txt"},
    }


def test_a_secured_server_is_measured(tmp_path: Path) -> None:
    """Every request has the headers over TLS; nothing that is kept or printed has them."""
    folder = tmp_path / "run"
    folder.mkdir()
    files(folder, "client")
    (folder / "headers.txt").write_text(f"Authorization: Bearer {SECRET}\n")
    with oracle_process(listen=Listen(tls_folder=str(tmp_path), wants_client=True)) as oracle:
        run = done(folder, CALM, spec=_spec(oracle))
    assert run.outcome == ("Complete", "Measured"), run.ended.stderr
    assert {each["authorization"] for each in oracle.headers} == {f"Bearer {SECRET}"}
    written = "".join(path.read_text(errors="replace") for path in run.directory.rglob("*.*"))
    assert "headers.txt" in written
    assert SECRET not in written + run.ended.stdout + run.ended.stderr


def test_a_file_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    """A key of another certificate is refused before anything starts, and no request is sent."""
    folder = tmp_path / "run"
    folder.mkdir()
    files(folder, "client")
    files(folder, "server")
    (folder / "headers.txt").write_text("X-Team: a\n")
    with oracle_process(listen=Listen(tls_folder=str(tmp_path))) as oracle:
        run = done(folder, CALM, spec=_spec(oracle, clientKeyFile="server-key.pem"))
    assert run.ended.code == 2
    assert "the key does not match" in run.ended.sentence
    assert oracle.headers == []
