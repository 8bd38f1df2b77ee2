"""Groups of commands whose help names arguments by what a user types, not by types of Python."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand
from typing_extensions import override


class CommandGroup(typer.Typer):
    """A group of commands: no markup in their help, -h as well as --help."""

    def __init__(self, name: str, *, help: str, **settings: Any) -> None:  # noqa: A002 - Typer's
        """Keep the name and the help of the group; settings are those of Typer."""
        super().__init__(
            name=name,
            help=help,
            no_args_is_help=True,
            rich_markup_mode=None,
            **{"add_completion": False, **settings},
        )

    @override
    def command(self, name: str | None = None, **settings: Any) -> Callable[..., Any]:
        return super().command(name, **{"cls": _Command, **settings})


class _Command(TyperCommand):
    """A command whose help lists arguments as its usage line writes them."""

    @override
    def format_options(self, ctx: Any, formatter: Any) -> None:
        for heading, is_argument in (("Arguments", True), ("Options", False)):
            records = [
                (each.display_name_raw, record[1]) if isinstance(each, TyperArgument) else record
                for each in self.get_params(ctx)
                if isinstance(each, TyperArgument) == is_argument
                and (record := each.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
