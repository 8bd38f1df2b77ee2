"""Fixtures of tests that fetch or export: a real S3-compatible store, and a claim's folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.object_store import object_store, store_binary
from support.requirements import cannot_run


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the store's program; without it there is nothing to try."""
    found = store_binary()
    if isinstance(found, str):
        cannot_run(found)
    return found


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """Return the folder of an empty bucket."""
    folder = tmp_path / "buckets" / "kept"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def endpoint(program: Path, bucket: Path) -> Iterator[str]:
    """Run the store, and give its address."""
    with object_store(program, bucket.parent) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """Return the folder of an empty claim."""
    folder = tmp_path / "claims" / "kept"
    folder.mkdir(parents=True)
    return folder
