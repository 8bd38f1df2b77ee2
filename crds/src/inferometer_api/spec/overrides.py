"""Changes of a run file by options of a command line: --set PATH=VALUE."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

from inferometer_api.rules import Where, format_path
from inferometer_api.spec.yaml_text import UnreadableTextError, read_yaml

_STEP = re.compile(r"""\.?([A-Za-z0-9_/-]+)|\[([0-9]+)\]|\[(?:"([^"]*)"|'([^']*)'|([^\]'"]+))\]""")


class OverrideError(ValueError):
    """A setting cannot be made; the message says where its path ends and what is there."""


def with_override(data: Any, path: str, value: str) -> Where:
    """Set one value in place and return where it stands.

    `path` is the field's in the file: `spec.load.connections`, `spec.scenarios[0].server.targetQps`
    or `spec.scenarios[traffic].server.targetQps`; a key with dots is written `["a.b/c"]`. `value`
    is YAML. Mappings on the way that are absent are made. Raises OverrideError.
    """
    steps = _steps(path)
    try:
        new = _read_value(value)
    except UnreadableTextError as error:
        raise OverrideError(f"its value is no YAML: {error}") from error
    where: list[str | int] = []
    here = data
    for step in steps[:-1]:
        place = _place(here, step, tuple(where))
        if isinstance(here, dict) and here.get(place) is None:
            here[place] = {}
        here = here[place]
        where.append(place)
    last = _place(here, steps[-1], tuple(where))
    here[last] = new
    return (*where, last)


def _steps(path: str) -> Sequence[str | int]:
    steps: list[str | int] = []
    end = 0
    while end < len(path):
        found = _STEP.match(path, end)
        begins = end == 0
        if found is None or (path[end] in ".[") == begins:
            raise OverrideError(
                f'"{path[end:]}" is no path; write it as in the file: spec.load.connections, '
                "spec.scenarios[0].server.targetQps"
            )
        name, index, *quoted = found.groups()
        steps.append(int(index) if index else name or next(q for q in quoted if q is not None))
        end = found.end()
    if not steps:
        raise OverrideError("the path is empty; write it as in the file: spec.load.connections")
    return steps


def _place(here: Any, step: str | int, where: Where) -> str | int:
    """Return the key or the index that a step means in a mapping or a list."""
    if isinstance(here, dict):
        return str(step)
    if not isinstance(here, list):
        raise OverrideError(
            f"{format_path(where)} is {_kind(here)} and has no {step}; set {format_path(where)} "
            "as a whole"
        )
    if isinstance(step, int):
        if step < len(here):
            return step
        raise OverrideError(
            f"{format_path(where)} has {len(here)} items, counted from 0: there is no [{step}]"
        )
    names = [item.get("name") if isinstance(item, dict) else None for item in here]
    if step in names:
        return names.index(step)
    known = [name for name in names if isinstance(name, str)]
    near = difflib.get_close_matches(step, known, n=1)
    hint = f"did you mean [{near[0]}]?" if near else f"there is {', '.join(known) or 'no name'}"
    raise OverrideError(f"{format_path(where)} has no item named {step}; {hint}")


def _kind(value: Any) -> str:
    return "a text" if isinstance(value, str) else "a single value"


def _read_value(text: str) -> Any:
    """Return the value of a short YAML text from a command line.

    A number with decimals stays a string: no field is a float, and rates with decimals are strings.
    """
    value = read_yaml(text).data
    return text.strip() if isinstance(value, float) and not value.is_integer() else value
