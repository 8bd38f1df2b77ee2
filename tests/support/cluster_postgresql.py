"""A PostgreSQL server that the pods of a test's cluster reach, with a password."""

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cluster.addresses import SWITCH
from support.cluster.cluster import Cluster
from support.postgresql import SERVER_USER, initialise, postgres_program, run_program
from support.requirements import cannot_run
from support.waiting import wait_until

_PORT = "5432"
_READY = "database system is ready to accept connections"


@contextmanager
def cluster_postgresql(cluster: Cluster) -> Iterator[str]:
    """Start a server at the switch of the nodes; yield the address of an empty database.

    Skips the test if there is none. Only root can start nodes, so that it runs as another user.
    """
    program = postgres_program()
    if program is None:
        cannot_run("PostgreSQL is not installed (tests/install-tools verify)")
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        data = initialise(folder)
        with (data / "pg_hba.conf").open("a") as file:
            file.write("host all all all scram-sha-256\n")
        setpriv = shutil.which("setpriv") or "setpriv"
        server = cluster.start_in_control_plane(
            "postgresql",
            [
                *(setpriv, f"--reuid={SERVER_USER}", "--regid=nogroup", "--clear-groups"),
                *(program, "-D", data, "-k", folder, "-h", SWITCH, "-p", _PORT, "-F"),
            ],
        )
        try:
            wait_until(lambda: _READY in server.tail(), "PostgreSQL", [server])
            password = secrets.token_hex(16)
            statement = f"CREATE ROLE results LOGIN PASSWORD '{password}'"
            words = ("--host", name, "--username", "tests", "--dbname", "postgres", "--command")
            run_program("psql", *words, statement)
            run_program("psql", *words, "CREATE DATABASE results OWNER results")
            yield f"postgresql://results:{password}@{SWITCH}:{_PORT}/results"
        finally:
            server.kill()
