"""How does the result get out of a load pod's log?"""

import asyncio
import ctypes
import gc

from pydantic import ValidationError

from inferometer_api.results.result import ResultDocument
from inferometer_api.results.result_transport import IncompleteError, TooLargeError, unpacked
from inferometer_operator.cluster.errors import ApiError, UnreachableError
from inferometer_operator.cluster.reader import Reader
from inferometer_operator.reconcile.observed import DownloadedResult, Json

_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""A container is told as ended before its runtime has written its last lines down."""


async def download_result(reader: Reader, pod: Json) -> DownloadedResult:
    """Return what the log of an ended load pod gives; asks again where it is not whole yet."""
    found = await _attempt(reader, pod)
    for pause_seconds in _PAUSES_SECONDS:
        if found.document is not None or found.reason == "ResultTooLarge":
            break
        await asyncio.sleep(pause_seconds)
        found = await _attempt(reader, pod)
    return found


async def _attempt(reader: Reader, pod: Json) -> DownloadedResult:
    metadata = pod["metadata"]
    container = pod["spec"]["containers"][0]["name"]
    try:
        lines = await reader.read_log(metadata["namespace"], metadata["name"], container)
    except (ApiError, UnreachableError) as error:
        sentence = f"The log of pod {metadata['name']} could not be read: {error}"
        return DownloadedResult(None, sentence, "ResultLost")
    # Several megabytes: the loop must go on meanwhile.
    found = await asyncio.to_thread(_document, lines)
    lines.clear()
    return found


def _document(lines: list[str]) -> DownloadedResult:
    try:
        return DownloadedResult(ResultDocument.model_validate_json(unpacked(lines)))
    except IncompleteError as error:
        return DownloadedResult(None, str(error))
    except TooLargeError as error:
        return DownloadedResult(None, str(error), "ResultTooLarge")
    except ValidationError as error:
        return DownloadedResult(
            None,
            "The result in the load pod's log cannot be read by this operator: are their versions "
            f"the same? {error.errors(include_url=False, include_input=False)[0]}",
        )


def release_memory() -> None:
    """Return to the system what a document took: the operator idles for days in between."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
