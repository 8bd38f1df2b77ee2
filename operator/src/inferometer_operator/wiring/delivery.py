"""Delivery of a run's result to the results service, from its ConfigMaps."""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from inferometer_api.plan.cluster_objects import RESULT_FILE
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.cluster.results_client import DeliveryError, ResultsClient
from inferometer_operator.reconcile.conditions import read_status
from inferometer_operator.reconcile.context import controller_of
from inferometer_operator.reconcile.observed import Delivery, Json

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 600.0
_log = structlog.get_logger()


@dataclass(slots=True)
class ResultDelivery:
    """The attempts to deliver the result of one run."""

    now: Callable[[], datetime]
    """The API server's time."""
    last: Delivery | None = None
    _pause_seconds: float = _FIRST_PAUSE_SECONDS

    @property
    def next_seconds(self) -> float | None:
        """Seconds until the next attempt, or None if none failed."""
        if self.last is None or self.last.retry_at is None:
            return None
        return max(0.1, (self.last.retry_at - self.now()).total_seconds())

    async def attempt(self, client: ResultsClient, reader: Reader, run: Json) -> None:
        """Try once; `last` is what came of it."""
        metadata = run["metadata"]
        config_maps: list[tuple[str, str]] = []
        try:
            stored_id = await client.deliver(
                metadata["namespace"], lambda: _read_document(reader, run, config_maps)
            )
        except DeliveryError as error:
            pause, self._pause_seconds = (
                self._pause_seconds,
                min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS),
            )
            self.last = Delivery(
                reason="StoreRefused" if error.refused else "StoreUnreachable",
                fault=str(error),
                retry_at=self.now() + timedelta(seconds=pause),
            )
            _log.warning(
                "result_not_stored",
                namespace=metadata["namespace"],
                run=metadata["name"],
                error=str(error),
                retry_in_seconds=pause,
            )
            return
        self.last = Delivery(stored_id=stored_id, config_maps=tuple(config_maps))


async def _read_document(
    reader: Reader, run: Json, config_maps: list[tuple[str, str]]
) -> bytearray:
    """Return the gzipped document of a run's result; add name and UID of each of its ConfigMaps."""
    metadata, reference = run["metadata"], read_status(run).result
    gz = bytearray()
    for name in () if reference is None else reference.config_maps:
        held = await reader.get("ConfigMap", metadata["namespace"], name)
        if held is None or controller_of(held).get("uid") != metadata["uid"]:
            raise DeliveryError(
                f"ConfigMap {name}, which holds a part of the result, no longer exists.",
                refused=True,
            )
        try:
            gz += b64decode((held.get("binaryData") or {})[RESULT_FILE], validate=True)
        except (KeyError, Base64Error) as error:
            raise DeliveryError(f"ConfigMap {name} is damaged.", refused=True) from error
        config_maps.append((name, str(held["metadata"]["uid"])))
    return gz
