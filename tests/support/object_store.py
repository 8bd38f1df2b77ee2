"""A real S3 store on loopback, with buckets in a folder."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from inferometer_api.spec.address import STORE_VARIABLES
from support.cluster.binaries import binary
from support.waiting import wait_until

ACCESS_KEY_ID, SECRET_ACCESS_KEY, REGION = "tester", "not-a-secret", "us-east-1"


def store_binary() -> Path | str:
    """Return the store's program, built once where it is missing, or a sentence why it cannot."""
    try:
        return binary("versitygw")
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return f"No store that speaks S3 can be built here from its Go module: {error}"


@contextmanager
def object_store(program: Path, folder: Path, *options: str, port: int = 0) -> Iterator[int]:
    """Run a store whose buckets are the folders in `folder`, and give its port on 127.0.0.1.

    Port 0 is a free one.
    """
    command: list[str | Path] = [program, "--access", ACCESS_KEY_ID, "--secret", SECRET_ACCESS_KEY]
    command += [
        "--region",
        REGION,
        "--quiet",
        "--port",
        f"127.0.0.1:{port}",
        *options,
        "posix",
        folder,
    ]
    with (folder.parent / "store.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: bool(_ports(process.pid)), "the store to listen")
        yield _ports(process.pid)[0]
    finally:
        process.terminate()
        process.wait()


def _ports(process_id: int) -> list[int]:
    found = psutil.Process(process_id).net_connections(kind="tcp")
    return [each.laddr.port for each in found if each.status == psutil.CONN_LISTEN]


def keys(endpoint: str, **others: str) -> dict[str, str]:
    """Return the environment of a fetcher that has the keys of a store; others by Secret key."""
    values = {
        "accessKeyId": ACCESS_KEY_ID,
        "secretAccessKey": SECRET_ACCESS_KEY,
        "endpoint": endpoint,
        **others,
    }
    return {STORE_VARIABLES[key]: value for key, value in values.items()}
