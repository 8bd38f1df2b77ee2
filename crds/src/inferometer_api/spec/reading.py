"""Reads a run file and reports every problem in it."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from inferometer_api.document import API_VERSION, Document
from inferometer_api.rules import Where, format_path
from inferometer_api.spec.overrides import OverrideError, with_override
from inferometer_api.spec.problems import (
    Problem,
    describe_errors,
    describe_value,
)
from inferometer_api.spec.run import BenchmarkRun
from inferometer_api.spec.yaml_text import UnreadableTextError, YamlText, read_yaml
from inferometer_api.wording import as_sentence

_Read = TypeVar("_Read", bound=Document)
_SUITE_HINT = " `inferometer run FILE` measures a suite, `inferometer suite plan` prints its runs."
_HINTS = {
    "BenchmarkSuite": _SUITE_HINT,
    "NodeBenchmark": " `kubectl apply` measures nodes of a cluster, `inferometer node` this one.",
}
_NOUNS = {
    "BenchmarkRun": "run",
    "BenchmarkSuite": "suite",
    "DatasetManifest": "manifest of a data set",
    "ModelManifest": "manifest of a model",
    "NodeBenchmark": "measurement of nodes",
}


class InvalidRunError(ValueError):
    """A text is not valid; `problems` lists everything that is wrong."""

    def __init__(
        self, source: str, problems: tuple[Problem, ...], *, kind: str = "BenchmarkRun"
    ) -> None:
        many = f"; {len(problems)} problems" if len(problems) > 1 else ""
        lines = "".join(f"\n  {problem}" for problem in problems)
        super().__init__(f"{source} is not a valid {kind}{many}:{lines}")
        self.source = source
        self.problems = problems


def parse_run(text: str, *, source: str, overrides: Sequence[tuple[str, str]] = ()) -> BenchmarkRun:
    """Return the run in a YAML or JSON text, with the values that kubectl would send.

    `source` names the text in messages: a file. `overrides` are (path, value)
    pairs of a command line, set in order: `("spec.scenarios[traffic].server.targetQps", "20")`.
    Raises InvalidRunError with every problem that can be seen at once.
    """
    return parse_document(text, BenchmarkRun, source=source, overrides=overrides)


def parse_document(
    text: str, model: type[_Read], *, source: str, overrides: Sequence[tuple[str, str]] = ()
) -> _Read:
    """Return the document in a text as `parse_run` does; the model's name is its kind."""
    kind = model.__name__
    try:
        read = read_yaml(text)
    except UnreadableTextError as error:
        raise InvalidRunError(source, (Problem("", as_sentence(str(error))),), kind=kind) from error
    if problem := _foreign(read, kind):
        raise InvalidRunError(source, (problem,), kind=kind)
    overridden = _override(read.data, source, overrides, kind)
    try:
        return model.model_validate(read.data, by_alias=True, by_name=False)
    except ValidationError as error:
        found = [
            _problem(where, message, read, overridden)
            for where, message in dict.fromkeys(
                describe_errors(error, read.data, model, read.decimals)
            )
        ]
        # In the file's order, as a person goes through it.
        found.sort(key=lambda problem: (problem.line is None, problem.line or 0))
        raise InvalidRunError(source, tuple(found), kind=kind) from error


def _override(
    data: Any, source: str, overrides: Sequence[tuple[str, str]], kind: str
) -> frozenset[Where]:
    """Set what a command line sets, and return where."""
    places, problems = [], []
    for path, value in overrides:
        try:
            places.append(with_override(data, path, value))
        except OverrideError as error:
            problems.append(Problem(path, as_sentence(f"cannot be set: {error}")))
    if problems:
        raise InvalidRunError(source, tuple(problems), kind=kind)
    return frozenset(places)


def _problem(where: Where, message: str, read: YamlText, overridden: frozenset[Where]) -> Problem:
    if any(_is_part(where, place, read) for place in overridden):
        return Problem(format_path(where), f"{message} It was set on the command line.")
    # What is missing has no line: the mapping that lacks it has.
    line = next((read.lines[up] for up in _upwards(where) if up in read.lines), None)
    return Problem(format_path(where), message, line)


def _is_part(where: Where, place: Where, read: YamlText) -> bool:
    """Return whether a value was set at `place`: it is part of it, or was made on the way to it."""
    return where[: len(place)] == place or (
        place[: len(where)] == where and where not in read.lines
    )


def _upwards(where: Where) -> list[Where]:
    return [where[:length] for length in range(len(where), -1, -1)]


def _foreign(read: YamlText, kind: str) -> Problem | None:
    """Return what is wrong where the text is nothing of this kind at all."""
    data = read.data
    begins = f"a {_NOUNS[kind]} begins with apiVersion: {API_VERSION} and kind: {kind}"
    if data is None:
        return Problem("", f"it is empty; {begins}.")
    if not isinstance(data, dict):
        held = "a list" if isinstance(data, list) else "a single value"
        return Problem("", f"it holds {held}, and must be a mapping; {begins}.")
    given = data.get("apiVersion"), data.get("kind")
    if given == (None, None):
        return Problem("", f"it says no apiVersion and no kind; {begins}.")
    for name, found, allowed in zip(
        ("kind", "apiVersion"), reversed(given), (kind, API_VERSION), strict=True
    ):
        if found is not None and found != allowed:
            line = read.lines.get((name,))
            hint = _HINTS.get(str(found), "")
            return Problem(name, f"must be {allowed}; found {describe_value(found)}.{hint}", line)
    return None
