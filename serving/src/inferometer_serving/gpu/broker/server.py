"""The broker: loads weights once, and hands their memory to every client that has their file."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog

from inferometer_serving.gpu.broker.layout import WeightLayout, lay_out
from inferometer_serving.gpu.broker.memory import WeightBlock, WeightMemory
from inferometer_serving.gpu.broker.messages import MessageError, peer_user, receive, send
from inferometer_serving.gpu.broker.payoff import SharingConstants
from inferometer_serving.gpu.broker.weight_cache import WeightCache
from inferometer_serving.gpu.broker.weight_file import (
    WeightFileError,
    check_readable,
    identity,
    read_extents,
)

_MOST_CLIENTS = 512
_REQUEST_SECONDS = 10.0
"""A client that sends its request more slowly is dropped."""
_log = structlog.get_logger()


class NotSharedError(Exception):
    """The broker does not share; `reason` is for programs, the text for people."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Broker:
    """Serves one GPU. A client's connection is its reference: it ends with the client."""

    def __init__(
        self,
        cache: WeightCache,
        memory: WeightMemory,
        constants: SharingConstants,
        users: Collection[int],
    ) -> None:
        self._cache = cache
        self._memory = memory
        self._constants = constants
        self._users = frozenset(users)
        self._blocks: dict[str, WeightBlock] = {}
        self._changed = threading.Condition()
        self._counts = {"hits": 0, "loads": 0, "evictions": 0, "refusals": 0}

    def serve(self, listener: socket.socket) -> None:
        """Answer clients until the listener is closed."""
        places = threading.BoundedSemaphore(_MOST_CLIENTS)
        while True:
            places.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:
                return

            def answer(connection: socket.socket = connection) -> None:
                try:
                    with connection:
                        self._answer(connection)
                finally:
                    places.release()

            threading.Thread(target=answer, daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        descriptor = None
        try:
            self._check_user(peer_user(connection))
            connection.settimeout(_REQUEST_SECONDS)
            request, descriptor = receive(connection)
            connection.settimeout(None)
            if descriptor is None:
                send(connection, self.status())
                return
            self._share(connection, request, descriptor)
        except (MessageError, WeightFileError) as error:
            self._refuse(connection, "BadRequest", f"The request is wrong: {error}.")
        except NotSharedError as error:
            self._refuse(connection, error.reason, str(error))
        except (OSError, RuntimeError) as error:
            self._refuse(connection, "Failed", f"The weights could not be shared: {error}.")
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _check_user(self, user: int) -> None:
        if user not in self._users:
            raise NotSharedError("UserNotAllowed", f"User {user} may not use this broker.")

    def _refuse(self, connection: socket.socket, reason: str, sentence: str) -> None:
        with self._changed:
            self._counts["refusals"] += 1
        _log.warning("refused", reason=reason, message=sentence)
        with contextlib.suppress(OSError):
            send(connection, {"reason": reason, "message": sentence})

    def _share(self, connection: socket.socket, request: dict[str, Any], descriptor: int) -> None:
        found = check_readable(descriptor)
        extents = read_extents(request.get("extents"), found.st_size)
        layout = lay_out(extents)
        self._check_payoff(layout)
        key = identity(found, extents)
        is_hit = self._acquire(key, layout, descriptor)
        try:
            exported = self._blocks[key].export()
            try:
                send(connection, {"sizeBytes": layout.size_bytes, "isHit": is_hit}, exported)
            finally:
                os.close(exported)
            while connection.recv(1):  # nothing more is expected, until the end
                pass
        finally:
            with self._changed:
                self._cache.release(key, time.monotonic())

    def _check_payoff(self, layout: WeightLayout) -> None:
        saved = self._constants.seconds_saved(layout.size_bytes)
        if saved <= 0:
            raise NotSharedError(
                "DoesNotPay",
                f"Sharing {layout.size_bytes:,} bytes costs {-saved * 1e3:.3f} ms more than it "
                "saves.",
            )

    def _acquire(self, key: str, layout: WeightLayout, descriptor: int) -> bool:
        """Add a reference to a model, and load it before if it is not here; say if it was."""
        with self._changed:
            while self._cache.is_loaded(key) is False:
                self._changed.wait()
            if self._cache.is_loaded(key):
                self._cache.acquire(key, time.monotonic())
                self._counts["hits"] += 1
                return True
            victims = self._reserve(key, layout)
            with self._forgotten_on_failure(key):
                self._evict(victims)
        began = time.monotonic()
        with self._forgotten_on_failure(key):
            self._blocks[key] = self._load(key, layout, descriptor)
        now = time.monotonic()
        with self._changed:
            self._cache.finish(key, now - began, now)
            self._cache.acquire(key, now)
            self._counts["loads"] += 1
            self._changed.notify_all()
        _log.info("loaded", size_bytes=layout.size_bytes, seconds=round(now - began, 6))
        return False

    @contextlib.contextmanager
    def _forgotten_on_failure(self, key: str) -> Iterator[None]:
        """Give up the room of a reserved model that fails, and wake the clients that wait."""
        try:
            yield
        except BaseException:
            with self._changed:
                self._cache.discard(key)
                self._changed.notify_all()
            raise

    def _reserve(self, key: str, layout: WeightLayout) -> tuple[str, ...]:
        """Make room for a model; return the models that have to leave."""
        size = self._memory.allocated_bytes(layout.size_bytes)
        victims = self._cache.reserve(key, size, time.monotonic())
        if victims is None:
            raise NotSharedError(
                "QuotaFull",
                f"The weights take {size:,} bytes; models in use take the rest of the quota of "
                f"{self._cache.quota_bytes:,}.",
            )
        return victims

    def _evict(self, victims: Sequence[str]) -> None:
        """Free every victim, even if that fails for another one."""
        with contextlib.ExitStack() as stack:
            for victim in victims:
                stack.callback(self._blocks.pop(victim).free)
                self._counts["evictions"] += 1

    def _load(self, key: str, layout: WeightLayout, descriptor: int) -> WeightBlock:
        block = self._memory.load(descriptor, layout)
        with contextlib.ExitStack() as stack:
            stack.callback(block.free)
            if identity(check_readable(descriptor), layout.extents) != key:
                raise NotSharedError("Changed", "The file of weights changed while it was read.")
            stack.pop_all()
        return block

    def status(self) -> dict[str, Any]:
        """Return counters and constants; they name no model."""
        with self._changed:
            return {
                "models": len(self._cache.keys),
                "references": self._cache.references,
                "usedBytes": self._cache.used_bytes,
                "quotaBytes": self._cache.quota_bytes,
                **self._counts,
                "loadBytesPerSecond": self._constants.load_bytes_per_second,
                "exportSeconds": self._constants.export_seconds,
                "openSeconds": self._constants.open_seconds,
            }


def listen(path: Path, *, is_open: bool) -> socket.socket:
    """Return a listening socket, also in place of one whose broker has ended.

    `is_open` lets processes of other users connect. Raises OSError if a broker serves it.
    """
    if path.exists():
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise OSError(f"another broker serves {path}")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o666 if is_open else 0o600)
        listener.listen(_MOST_CLIENTS)
    except BaseException:
        listener.close()
        raise
    return listener
