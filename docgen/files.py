"""Generated files of the checkout: written, or compared."""

from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def stale(files: Mapping[str, str], root: Path, source: str) -> tuple[str, ...]:
    """Return a sentence for each file that is absent or not what its source says.

    `files` has each file's text by its path below `root`; `source` is what people call their
    source: "the models say".
    """
    sentences = []
    for name, text in files.items():
        path = root / name
        if not path.is_file():
            sentences.append(f"{name} is missing: run make generate and commit it.")
        elif path.read_text(encoding="utf-8") != text:
            sentences.append(
                f"{name} is not what {source}: run make generate and commit the change."
            )
    return tuple(sentences)


def write(files: Mapping[str, str], root: Path) -> None:
    """Write each file."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
