"""Children that report a document in the last line of their output."""

import asyncio
import sys
from contextlib import AsyncExitStack

import pytest

from inferometer_cli.exits import FailedError, RefusedError
from inferometer_cli.local.child_process import first_line, output_document, start_child


def program(text: str) -> tuple[str, ...]:
    """Return the command of a child that runs this Python."""
    return (sys.executable, "-c", text)


def test_the_last_line_is_the_document() -> None:
    """A watcher gets each line as it comes."""
    seen: list[bytes] = []
    command = program("print('one'); print('two')")
    assert asyncio.run(output_document("probe", command, seen.append)) == b"two\n"
    assert seen == [b"one\n", b"two\n"]


def test_a_child_that_ends_early_has_no_document() -> None:
    """The error has the exit code and the last output."""
    command = program("import sys; print('half'); sys.exit('It broke.')")
    with pytest.raises(FailedError, match=r"The probe ended early \(exit code 1\)(.|\n)*It broke"):
        asyncio.run(output_document("probe", command))


@pytest.mark.parametrize(
    ("code", "said", "expected", "message"),
    [
        (2, "refused: No.", RefusedError, r"^No\.$"),
        (2, "usage: probe", FailedError, r"exited at once \(exit code 2\)"),
        (1, "refused: No.", FailedError, r"exited at once \(exit code 1\)"),
        (1, "failed: Full.", FailedError, r"^Full\.$"),
    ],
)
def test_a_child_without_output_explains_its_exit_code(
    code: int, said: str, expected: type[Exception], message: str
) -> None:
    """Code and prefix together make a refusal: in other programs the code means anything."""

    async def line() -> bytes:
        command = program(f"import sys; sys.stderr.write({said!r}); sys.exit({code})")
        async with AsyncExitStack() as stack:
            return await first_line(await start_child("probe", command, stack))

    with pytest.raises(expected, match=message):
        asyncio.run(line())
