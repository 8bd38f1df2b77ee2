"""`inferometer results tag`, `retract` and `reindex`: what people say of results."""

from typing import Annotated

import typer

from inferometer_cli.commands.results.show import IdArgument
from inferometer_cli.exits import RefusedError
from inferometer_cli.result_store import DatabaseOption, entry, opened
from inferometer_cli.terminal import print_message

_LONGEST_TEXT = 1000


def tag(
    id_: IdArgument,
    name: Annotated[str, typer.Argument(metavar="TAG", help="The tag.", show_default=False)],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Tag a result. `results list --where tag=TAG` finds it; `results prune` keeps it."""
    if not name.strip() or len(name) > 63 or not name.isprintable():
        raise RefusedError("A tag has 1 to 63 printable characters.")
    with opened(database) as store:
        store.note(store.resolve(id_), entry("untag" if remove else "tag", name))


def retract(
    id_: IdArgument,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why its figures are wrong.")
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take the retraction back.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Mark a result as wrong: it stays, and lists leave it out."""
    if not undo and not reason.strip():
        raise RefusedError("Say why with --reason: everybody who finds the result will read it.")
    if len(reason) > _LONGEST_TEXT:
        raise RefusedError(f"A reason has at most {_LONGEST_TEXT} characters.")
    with opened(database) as store:
        store.note(store.resolve(id_), entry("restore" if undo else "retract", reason))


def reindex(*, database: DatabaseOption = None) -> None:
    """Make the index anew from the documents and from what people added."""
    done = 0
    with opened(database) as store:
        for done in store.reindex():  # noqa: B007 - the last one counts
            pass
    print_message(f"{done} results indexed.")
