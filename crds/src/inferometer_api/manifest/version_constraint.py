"""Version constraints of manifests: npm's notation, judged by the order of `packaging`."""

import re
from collections.abc import Iterable

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

_TERM = re.compile(r"(>=|<=|==|!=|=|>|<|\^|~>?)?\s*v?([0-9][0-9A-Za-z.+*-]*|[*xX][0-9.*xX]*)")

_HYPHENS = re.compile(r"^\s*v?([0-9*xX]\S*)\s+-\s+v?([0-9*xX]\S*)\s*$")
"""A range from one version to another, both included."""


class ConstraintError(ValueError):
    """A version constraint that cannot be read; the message says what to write."""

    reason = (
        "cannot be read: write one like '>=1.20 <2', '^1.20', '~1.20.1', '1.20.x', '1.20 - 1.22' "
        "or '*'"
    )
    """What follows the constraint, without a full stop."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"The version constraint {constraint!r} {self.reason}.")


def satisfies(version: str, constraint: str) -> bool:
    """Return whether a version is within a constraint. Raises ConstraintError.

    As in npm, a pre-release is only within one that names a pre-release of the same version, and
    build metadata do not count.
    """
    try:
        found = Version(version.partition("+")[0])
    except InvalidVersion:
        return False
    return any(
        specifiers.contains(found, prereleases=True)
        and (not found.is_prerelease or _names_pre_release(part, found))
        for part, specifiers in zip(_parts(constraint), _alternatives(constraint), strict=True)
    )


def _names_pre_release(part: str, version: Version) -> bool:
    """Return whether a part of a constraint names a pre-release of the same version."""
    named = [Version(_release(term)) for _, term in _TERM.findall(part) if term[0].isdigit()]
    return any(each.is_prerelease and _gap(each, version) == (0,) * 4 for each in named)


def check_constraint(constraint: str) -> None:
    """Raise ConstraintError if a constraint cannot be read."""
    _alternatives(constraint)


def nearest(versions: Iterable[str], constraint: str) -> str | None:
    """Return the version that comes nearest to a constraint: the closest to a version in it.

    None if there is no version at all. Of equally near ones it is the newest.
    """
    known = [Version(each) for each in versions]
    named = [Version(_release(term)) for _, term in _TERM.findall(constraint) if term[0].isdigit()]
    if not known:
        return None
    if not named:
        return str(max(known))
    return str(min(sorted(known, reverse=True), key=lambda each: min(_gap(each, n) for n in named)))


def _gap(one: Version, other: Version) -> tuple[int, ...]:
    mine, theirs = (each.release + (0,) * (4 - len(each.release)) for each in (one, other))
    return tuple(abs(a - b) for a, b in zip(mine, theirs, strict=False))


def _release(term: str) -> str:
    """Return a version as `packaging` reads it, to which -0 is no pre-release.

    Nothing counts from a wildcard on, nor build metadata.
    """
    known = re.sub(r"(^|\.)[xX*](\.[0-9xX*]+)*$", "", term.partition("+")[0])
    return re.sub(r"-(\d+)$", r".dev\1", known)


def _parts(constraint: str) -> list[str]:
    """Return the alternatives of a constraint, without ranges with hyphens.

    An empty one is any version.
    """
    parts = constraint.split("||")
    named = [each if each.strip() or len(parts) == 1 else "*" for each in parts]
    return [_HYPHENS.sub(r">=\1 <=\2", each) for each in named]


def _alternatives(constraint: str) -> list[SpecifierSet]:
    return [_specifiers(part, constraint) for part in _parts(constraint)]


def _specifiers(part: str, whole: str) -> SpecifierSet:
    text = part.replace(",", " ").strip()
    terms = _TERM.findall(text)
    if not terms or _TERM.sub("", text).strip():
        raise ConstraintError(whole)
    try:
        return SpecifierSet(",".join(_specifier(operator, term) for operator, term in terms))
    except (InvalidSpecifier, InvalidVersion) as error:
        raise ConstraintError(whole) from error


def _specifier(operator: str, term: str) -> str:
    """Return one term in the notation of `packaging`; a partial version stands for all its own."""
    release = _release(term)
    if not release:
        return "<0.dev0" if operator in {"<", ">", "!="} else ""  # no version is below 0.dev0
    version = Version(release)
    parts = list(version.release)
    if len(parts) < 3 and not version.is_prerelease and operator not in {"^", "~", "~>"}:
        return _partial(operator, release, _next(parts, len(parts) - 1))
    match operator:
        case "^":
            leading = next((place for place, part in enumerate(parts) if part), len(parts) - 1)
            return f">={release},<{_next(parts, leading)}"
        case "~" | "~>":
            return f">={release},<{_next(parts, min(1, len(parts) - 1))}"
        case _:
            return f"{'==' if operator in {'', '='} else operator}{release}"


def _partial(operator: str, release: str, following: str) -> str:
    """Return a term with a version such as 1.20, which stands for all that begin with it."""
    match operator:
        case "!=":
            return f"!={release}.*"
        case ">":
            return f">={following}"
        case "<=":
            return f"<{following}"
        case ">=" | "<":
            return f"{operator}{release}"
        case _:
            return f"=={release}.*"


def _next(parts: list[int], place: int) -> str:
    return ".".join(map(str, [*parts[:place], parts[place] + 1]))
