"""Packing of a result document for its ConfigMaps."""

from dataclasses import dataclass, field
from hashlib import sha256

from inferometer_api.results.gzip_members import compress, decompressed
from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.results.result_transport import PART_BYTES, open_head
from inferometer_api.status.run_status import ScenarioSummary


@dataclass(frozen=True, slots=True)
class ReceivedResult:
    """A result as it arrived: its scenarios stay compressed, however many they are."""

    head: ResultDocument
    """The document without its scenarios."""
    scenarios: tuple[ScenarioSummary, ...]
    body_gz: bytearray = field(repr=False)
    """The rest of the document, compressed."""


@dataclass(frozen=True, slots=True)
class ResultAdditions:
    """What only the operator knows of a result."""

    outcome: Outcome
    """How the run ended."""
    images: tuple[tuple[str, str], ...] = ()
    """The image digest of each pod."""
    model_sha256: str | None = None
    """The fetched model's checksum, if the spec has none."""


@dataclass(frozen=True, slots=True)
class PackedResult:
    """A complete document, ready to be kept."""

    added: ResultAdditions
    head_gz: bytes
    body_gz: bytearray = field(repr=False)
    sha256: str
    size_bytes: int
    """Its size before compression."""
    scenarios: tuple[ScenarioSummary, ...]

    @property
    def part_count(self) -> int:
        """Number of ConfigMaps that hold it."""
        return -(-(len(self.head_gz) + len(self.body_gz)) // PART_BYTES)

    def part(self, index: int) -> bytes:
        """Return what a ConfigMap holds of it: all parts at once would double its memory."""
        start, end = index * PART_BYTES, (index + 1) * PART_BYTES
        of_head = len(self.head_gz)
        return (
            self.head_gz[start:end] + self.body_gz[max(0, start - of_head) : max(0, end - of_head)]
        )


@dataclass(slots=True)
class ResultPacker:
    """The last that a document was packed to.

    The checksum of a large one takes a moment, and a run looks at its result several times until it
    is kept; what is added does not change meanwhile.
    """

    last: PackedResult | None = None

    def pack(self, result: ReceivedResult, added: ResultAdditions) -> PackedResult:
        """Return the document with what the operator added, packed; the same for the same."""
        if self.last is None or self.last.added != added:
            self.last = _packed(result, added)
        return self.last


def _packed(result: ReceivedResult, added: ResultAdditions) -> PackedResult:
    head = open_head(_completed(result.head, added).model_dump_json(exclude_none=True).encode())
    digest, size = sha256(head), len(head)
    for part in decompressed(result.body_gz):
        digest.update(part)
        size += len(part)
    return PackedResult(
        added=added,
        head_gz=compress(head),
        body_gz=result.body_gz,
        sha256=digest.hexdigest(),
        size_bytes=size,
        scenarios=result.scenarios,
    )


def _completed(head: ResultDocument, added: ResultAdditions) -> ResultDocument:
    update: dict[str, object] = {"outcome": added.outcome}
    environment = head.environment
    if environment is not None:
        model = environment.model
        if model.sha256 is None:
            model = model.model_copy(update={"sha256": added.model_sha256})
        images = {**environment.images, **dict(added.images)}
        update["environment"] = environment.model_copy(update={"images": images, "model": model})
    return head.model_copy(update=update)
