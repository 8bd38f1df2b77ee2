"""How does the result get out of a load pod's log?"""

import asyncio
import ctypes
import gc

from pydantic import ValidationError

from inferometer_api.handover import IncompleteError, TooLargeError, unpacked
from inferometer_api.result import ResultDocument
from inferometer_operator.cluster.errors import RefusedError, UnreachableError
from inferometer_operator.cluster.reading import Reader
from inferometer_operator.reconcile.observed import Collected, Json

_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)


async def collected(reader: Reader, pod: Json) -> Collected:
    """Return what the log of an ended load pod gives; asks again where it could not be read."""
    metadata = pod["metadata"]
    container = pod["spec"]["containers"][0]["name"]
    fault = ""
    for pause in (*_PAUSES_SECONDS, 0.0):
        try:
            lines = await reader.log(metadata["namespace"], metadata["name"], container)
        except (RefusedError, UnreachableError) as error:
            fault = f"The log of pod {metadata['name']} could not be read: {error}"
            await asyncio.sleep(pause)
        else:
            return await _read(lines)
    return Collected(None, fault, "ResultLost")


async def _read(lines: list[str]) -> Collected:
    # Several megabytes: the loop must go on meanwhile.
    found = await asyncio.to_thread(_document, lines)
    lines.clear()
    return found


def _document(lines: list[str]) -> Collected:
    try:
        return Collected(ResultDocument.model_validate_json(unpacked(lines)))
    except IncompleteError as error:
        return Collected(None, str(error))
    except TooLargeError as error:
        return Collected(None, str(error), "ResultTooLarge")
    except ValidationError as error:
        return Collected(
            None,
            "The result in the load pod's log cannot be read by this operator: are their versions "
            f"the same? {error.errors(include_url=False, include_input=False)[0]}",
        )


def give_back_memory() -> None:
    """Return to the system what a document took: the operator idles for days in between."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
