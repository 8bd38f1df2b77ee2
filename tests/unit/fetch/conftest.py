"""Fixtures of tests of the model cache: a store with one model, a node, and retries at once."""

import pytest

from inferometer_fetch.cache import download
from support.model_cache import (
    CONTENT,
    OTHER_URI,
    PRIVATE_URI,
    URI,
    MemoryMounter,
    ScriptedStore,
)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next try of a download follow at once."""
    monkeypatch.setattr(download, "_PAUSES_SECONDS", (0.0, 0.0))


@pytest.fixture
def content() -> ScriptedStore:
    """Return a store with one model, under two public addresses and a private one."""
    return ScriptedStore({URI: CONTENT, OTHER_URI: CONTENT, PRIVATE_URI: CONTENT})


@pytest.fixture
def mounter() -> MemoryMounter:
    """Return a node without mounts."""
    return MemoryMounter()
