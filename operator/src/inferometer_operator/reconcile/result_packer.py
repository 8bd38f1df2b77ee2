"""Packing of a result document for its ConfigMaps."""

from dataclasses import dataclass
from hashlib import sha256

from inferometer_api.results.result import Outcome, ResultDocument
from inferometer_api.results.result_transport import compress, split_parts
from inferometer_api.results.scenario_summary import scenario_summary
from inferometer_api.status.run_status import ScenarioSummary


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
    gz_parts: tuple[bytes, ...]
    sha256: str
    bytes: int
    """Its size before compression."""
    scenarios: tuple[ScenarioSummary, ...]


@dataclass(slots=True)
class ResultPacker:
    """The last that a document was packed to.

    Packing a large one takes a second, and a run looks at its result several times until it is
    kept; what is added does not change meanwhile.
    """

    last: PackedResult | None = None

    def packed(self, document: ResultDocument, added: ResultAdditions) -> PackedResult:
        """Return the document with what the operator added, packed; the same for the same."""
        if self.last is None or self.last.added != added:
            self.last = _packed(document, added)
        return self.last


def _packed(document: ResultDocument, added: ResultAdditions) -> PackedResult:
    written = _completed(document, added).model_dump_json(exclude_none=True).encode()
    return PackedResult(
        added=added,
        gz_parts=tuple(split_parts(compress(written))),
        sha256=sha256(written).hexdigest(),
        bytes=len(written),
        scenarios=tuple(scenario_summary(each) for each in document.scenarios),
    )


def _completed(document: ResultDocument, added: ResultAdditions) -> ResultDocument:
    update: dict[str, object] = {"outcome": added.outcome}
    environment = document.environment
    if environment is not None:
        model = environment.model
        if model.sha256 is None:
            model = model.model_copy(update={"sha256": added.model_sha256})
        images = {**environment.images, **dict(added.images)}
        update["environment"] = environment.model_copy(update={"images": images, "model": model})
    return document.model_copy(update=update)
