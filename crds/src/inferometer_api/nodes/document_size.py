"""The size of a node's document: what a ConfigMap takes, and what the operator reads.

Figures of GPUs and of their pairs grow with the square of their number: a machine with eight has
more than fits.
"""

from collections import defaultdict

from inferometer_api.nodes.characteristics import NodeCharacteristics, NodeFigure

MOST_BYTES = 900 * 1024
"""A ConfigMap takes 1 MiB."""
MOST_VALUES = 50_000
"""Many small values take far more memory than their text; a node has some hundred."""
_SEPARATORS = (b",", b":", b"{", b"[")
_DIGITS = 6
"""Finer than the interval of any figure."""


def excess(line: bytes) -> str:
    """Return why a document is too large, as a clause; empty if it is not."""
    if len(line) > MOST_BYTES:
        return f"is larger than the {MOST_BYTES} bytes to keep"
    if _values(line) > MOST_VALUES:
        return f"has more than {MOST_VALUES} values"
    return ""


def within_bounds(document: NodeCharacteristics) -> NodeCharacteristics:
    """Return a document that can be kept, whatever the number of its GPUs.

    If it is too large, the figures of GPUs lose their samples and superfluous digits; then the
    names with the most figures lose theirs. Those of the CPU stay as they are.
    """
    if not excess(_line(document)):
        return document
    caution = (
        "The figures of GPUs have no samples and are rounded, so that the document stays within "
        f"what a ConfigMap takes ({MOST_BYTES >> 10} KiB, {MOST_VALUES:,} values)."
    )
    shortened = document.model_copy(
        update={
            "figures": [_shortened(each) for each in document.figures],
            "cautions": [*document.cautions, caution],
        }
    )
    by_name: dict[str, list[NodeFigure]] = defaultdict(list)
    for each in shortened.figures:
        if _is_of_gpu(each):
            by_name[each.name].append(each)
    for name in sorted(by_name, key=lambda each: len(by_name[each]), reverse=True):
        if not excess(_line(shortened)):
            break
        shortened = _without(shortened, name, len(by_name[name]))
    return shortened


def _without(document: NodeCharacteristics, name: str, count: int) -> NodeCharacteristics:
    why = f"its {count:,} figures do not fit into the document, which a ConfigMap is to hold"
    return document.model_copy(
        update={
            "figures": [
                each for each in document.figures if each.name != name or not _is_of_gpu(each)
            ],
            "unavailable": document.unavailable | {name: why},
        }
    )


def _shortened(figure: NodeFigure) -> NodeFigure:
    if not _is_of_gpu(figure):
        return figure
    numbers = ("value", "low", "high", "best")
    known = {name: getattr(figure, name) for name in numbers if getattr(figure, name) is not None}
    rounded = {name: float(f"{number:.{_DIGITS}g}") for name, number in known.items()}
    return figure.model_copy(update={**rounded, "samples": []})


def _is_of_gpu(figure: NodeFigure) -> bool:
    return "gpu" in figure.setting


def _line(document: NodeCharacteristics) -> bytes:
    return document.model_dump_json(by_alias=True, exclude_none=True).encode()


def _values(line: bytes) -> int:
    return max(map(line.count, _SEPARATORS))
