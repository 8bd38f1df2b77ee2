"""How is the answer to an inference request written?"""

from collections.abc import Sequence
from functools import lru_cache

import orjson

from inferometer_serving.infer_plan import PlannedOutput
from inferometer_serving.json_tensors import to_json
from inferometer_serving.tensors import Array, Raw, to_raw


def answer(
    model: tuple[str, str],
    request_id: str | None,
    outputs: Sequence[PlannedOutput],
    results: Sequence[Array],
) -> tuple[bytes, list[Raw]]:
    """Return the outputs as a JSON document and the binary data behind it.

    `model` is its name and version.
    Raises RequestRefusedError where JSON cannot carry an output.
    """
    texts = [_opening(*model)]
    if request_id is not None:
        texts += (b',"id":', orjson.dumps(request_id))
    raw: list[Raw] = []
    separator = b',"outputs":['
    for planned, array in zip(outputs, results, strict=True):
        spec = planned.spec
        texts += (separator, planned.opening, orjson.dumps(array.shape))
        if planned.is_binary:
            data = to_raw(spec.datatype, array)
            raw.append(data)
            texts.append(b',"parameters":{"binary_data_size":%d}}' % len(data))
        else:
            texts += (b',"data":', to_json(spec.name, spec.datatype, array), b"}")
        separator = b","
    texts.append(b"]}")
    return b"".join(texts), raw


@lru_cache(maxsize=4)
def _opening(model_name: str, model_version: str) -> bytes:
    return orjson.dumps({"model_name": model_name, "model_version": model_version})[:-1]
