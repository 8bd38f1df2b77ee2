"""SHA-256 of the samples that are read of a data set, however it is packed."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from inferometer_tasks.datasets.dataset import UnreadableSample
from inferometer_tasks.sample import Sample


class SampleDigest:
    """Identity, content, label and context of samples in the order in which they are read."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def read(
        self, samples: Iterator[Sample | UnreadableSample]
    ) -> Iterator[Sample | UnreadableSample]:
        """Yield samples, and count each as read."""
        for each in samples:
            self._add(each.id)
            if isinstance(each, Sample):
                for part in (each.content, each.label, each.context):
                    self._add(part)
            else:
                self._add(None)
            yield each

    @property
    def value(self) -> str:
        """64 hexadecimal digits over the samples so far."""
        return self._hash.hexdigest()

    def _add(self, part: Any) -> None:
        """Count a part with its type and length, so that no two lists of parts look alike."""
        if isinstance(part, np.ndarray):
            head, content = f"{part.dtype} {part.shape}", np.ascontiguousarray(part).tobytes()
        elif isinstance(part, bytes):
            head, content = "bytes", part
        else:
            head, content = "value", _text(part).encode()
        self._hash.update(f"{head} {len(content)}\n".encode())
        self._hash.update(content)


def _text(part: Any) -> str:
    try:
        return json.dumps(part, sort_keys=True, default=str)
    except RecursionError:
        return "nested too deeply"
