"""Names of the built-in models, as in `zoo://TASK/NAME`."""

import difflib

from inferometer_api.spec.zoo_names import ZOO_NAMES


class UnknownModelError(ValueError):
    """A name that the zoo does not have; its message gives the nearest ones."""


def zoo_model(name: str) -> str:
    """Return the full name of a model ("classification/resnet50") from it or a bare one.

    Raises UnknownModelError if no model has that name, or several share the bare one.
    """
    if name in ZOO_NAMES:
        return name
    candidates = [full for full in ZOO_NAMES if _bare(full) == name]
    match candidates:
        case [only]:
            return only
        case []:
            raise UnknownModelError(_unknown(name))
        case _:
            several = ", ".join(candidates)
            raise UnknownModelError(
                f'"{name}" names several models of the model zoo: '
                f"{several}; name one of these in full."
            )


def zoo_name(uri: str) -> str:
    """Return what a `zoo://` address names, which need not exist."""
    return uri.partition(":")[2].removeprefix("//")


def _unknown(name: str) -> str:
    """Return the message for an unknown name, with the models of similar names, best first."""
    wanted = name.lower().removeprefix("zoo://")
    by_bare_name = {_bare(full): full for full in ZOO_NAMES}
    bare_names = difflib.get_close_matches(_bare(wanted), by_bare_name, n=3)
    near = [by_bare_name[bare] for bare in bare_names]
    near += [full for full in difflib.get_close_matches(wanted, ZOO_NAMES, n=3) if full not in near]
    nearest = f" The nearest names are {', '.join(near[:3])}." if near else ""
    return (
        f'"{name}" is not in the model zoo.{nearest} '
        f"`inferometer models` lists all {len(ZOO_NAMES)}."
    )


def _bare(name: str) -> str:
    return name.rpartition("/")[2]
