"""Which result document do these bytes hold, and if none, why not?"""

import json

from pydantic import ValidationError

from inferometer_api.results.result import SCHEMA_VERSION, ResultDocument
from inferometer_cli.exits import RefusedError
from inferometer_cli.version import VERSION


def parse_result(text: bytes, *, source: str) -> ResultDocument:
    """Return a kept result document; `source` is what its bytes are called in errors.

    Raises RefusedError where they are none, or one that this version cannot read.
    """
    try:
        return ResultDocument.model_validate_json(text)
    except ValidationError as error:
        raise RefusedError(_why_unreadable(source, text, error)) from error


def _why_unreadable(source: str, text: bytes, error: ValidationError) -> str:
    try:
        told = json.loads(text)
    except ValueError:
        return f"{source} is no JSON: give a result.json that `inferometer run` wrote."
    if not isinstance(told, dict) or told.get("kind") != "BenchmarkResult":
        return f"{source} is no result document: give a result.json that `inferometer run` wrote."
    if told.get("schemaVersion") != SCHEMA_VERSION:
        return (
            f"{source} has schema version {told.get('schemaVersion')} (Inferometer "
            f"{told.get('inferometerVersion')} wrote it), but this is Inferometer {VERSION}, which "
            f"reads version {SCHEMA_VERSION}: use the Inferometer that wrote it."
        )
    where = ".".join(str(part) for part in error.errors()[0]["loc"])
    return (
        f"{source} is damaged at {where}, or another version than Inferometer {VERSION} wrote it "
        f"({told.get('inferometerVersion')}): use that one, or measure again."
    )
