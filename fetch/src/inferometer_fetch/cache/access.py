"""Remembers which credentials a store accepted within the last hour."""

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict

from inferometer_fetch.cache.errors import StillFetchingError
from inferometer_fetch.cache.limits import NamespaceLimit
from inferometer_fetch.cache.request import ModelRequest
from inferometer_fetch.cache.versions import FindVersion, version_in_store
from inferometer_fetch.errors import FetchFailedError
from inferometer_fetch.object_store import ObjectVersion
from inferometer_fetch.transfer import TransientError

ACCEPTED_SECONDS = 3600.0
_CHECKS_AT_ONCE, _CHECKS_OF_A_NAMESPACE = 32, 8
"""A store that does not answer holds a check, and its call of the plugin, for half a minute."""


class Access:
    """Checks the credentials of pods for private models; it keeps none of them.

    What is remembered is a keyed hash, whose key ends with the process.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        find_version: FindVersion = version_in_store,
    ) -> None:
        self._clock = clock
        self._find_version = find_version
        self._hash_key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._checks = NamespaceLimit(_CHECKS_AT_ONCE, _CHECKS_OF_A_NAMESPACE)
        self._accepted_at: dict[bytes, float] = {}

    def check(self, request: ModelRequest, data: Mapping[str, ObjectVersion]) -> bool:
        """Return if the model is public, or its store accepted these credentials within the hour.

        Otherwise this queries the store, also for the versions of external data, and returns
        whether they still are those in `data`. Raises ModelRefusedError if the store refuses,
        FetchFailedError if it does not answer, and StillFetchingError if too many checks wait for
        stores.
        """
        if request.store is None:
            return True
        digest, now = self._digest(request), self._clock()
        with self._lock:
            accepted_at = self._accepted_at.get(digest)
        if accepted_at is not None and 0 <= now - accepted_at < ACCEPTED_SECONDS:
            return True
        if not self._checks.take(request.namespace):
            raise StillFetchingError(
                f"The credentials for the model {request.uri} are not yet checked: other checks of "
                "its namespace or of the node wait for their stores. The kubelet tries again."
            )
        try:
            self._find_version(request, None)
            is_current = all(
                self._find_version(request, location) == version
                for location, version in data.items()
            )
        except TransientError as error:
            raise FetchFailedError(
                f"The model {request.uri} is private, and its store does not answer: {error}. It "
                "is mounted only if the store accepted the pod's credentials within the last hour."
            ) from error
        finally:
            self._checks.release(request.namespace)
        with self._lock:
            self._accepted_at = {
                each: at
                for each, at in self._accepted_at.items()
                if 0 <= now - at < ACCEPTED_SECONDS
            }
            self._accepted_at[digest] = now
        return is_current

    def _digest(self, request: ModelRequest) -> bytes:
        store = {} if request.store is None else asdict(request.store)
        text = json.dumps([request.key, store], sort_keys=True)
        return hmac.new(self._hash_key, text.encode(), hashlib.sha256).digest()
