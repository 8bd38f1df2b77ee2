"""Recognizes what a file is that should be an ONNX model, by its first bytes."""

_KINDS: tuple[tuple[bytes, str], ...] = (
    (
        b"version https://git-lfs",
        "it is a pointer of Git LFS, in place of the file itself: run git lfs pull.",
    ),
    (b"PK\x03\x04", "it is a zip archive, as PyTorch writes it: export the model to ONNX."),
    (b"\x89HDF\r\n", "it is an HDF5 file, as Keras writes it: convert the model to ONNX."),
    (b"\x80", "it is a pickle of Python, as PyTorch writes it: export the model to ONNX."),
    (b"<", "it is a web page or XML: download the file itself."),
)
_IR_VERSION_TAG = b"\x08"


def reason_not_onnx(content: bytes) -> str:
    """Return why the content of a file is no ONNX model and what to do, for the end of a sentence.

    `content` is the whole file, or its beginning if it is long.
    """
    if not content:
        return "it is empty: download or export it again."
    for beginning, reason in _KINDS:
        if content.startswith(beginning):
            return reason
    missing = _missing_bytes(content)
    if missing > 0:
        return (
            f"it is truncated: at least {missing:,} bytes are missing after {len(content):,}. "
            "Download or copy it again."
        )
    return "its content has another format. Export the model to ONNX, or name another file."


def is_lfs_pointer(content: bytes) -> bool:
    """Return whether a file is a pointer of Git LFS."""
    return content.startswith(_KINDS[0][0])


def _missing_bytes(content: bytes) -> int:
    """Return how many bytes the last field of a model lacks; 0 if it is whole, or no model.

    A model is a message of Protocol Buffers, whose first field is its IR version.
    """
    position = 0
    if not content.startswith(_IR_VERSION_TAG):
        return 0
    while position < len(content):
        tag, position = _varint(content, position)
        match tag & 7:
            case 0:  # a number
                _, position = _varint(content, position)
            case 2:  # bytes after their length
                length, position = _varint(content, position)
                position += length
            case _:
                return 0
    return position - len(content)


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """Return a number and the position after it, which is past the end if it is cut off."""
    value = shift = 0
    while position < len(content):
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return value, position + 1
