"""The documents that ask which stored results may stand for runs of a suite, and answer it."""

from typing import Annotated

from pydantic import Field, StringConstraints

from inferometer_api.document import Document, Integral, Sha256, Timestamp
from inferometer_api.status.run_status import ScenarioSummary
from inferometer_api.suite.spec import MOST_RUNS

_Text = Annotated[str, Field(max_length=253)]
_Digest = Annotated[str, Field(min_length=1, max_length=512)]


class ReuseQuery(Document):
    """What a stored result must be equal in."""

    spec_digest: Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$", max_length=16)]
    """Of the resolved spec: `inferometer_api.spec.digest`."""

    node: _Text
    """The node of its servers."""

    images: Annotated[list[_Digest], Field(max_length=8)]
    """Digests of the images of server and load generator: sha256:..."""

    model_sha256: Sha256 | None = None
    """Checksum of its model; absent: the images determine the model."""

    most: Annotated[int, Field(ge=1, le=MOST_RUNS), Integral] = 1
    """How many results to return."""


class ReuseRequest(Document):
    """Questions of an operator about the results of a namespace."""

    stored_before: Timestamp
    """When the suite began: what was stored later may be its own."""

    queries: Annotated[list[ReuseQuery], Field(max_length=MOST_RUNS)]
    """One for each measurement that is to be spared."""


class ReusableResult(Document):
    """A stored VALID result, with its figures."""

    id: Annotated[str, Field(max_length=64)]
    """Its ID."""

    run: _Text
    """The run that measured it."""

    started_at: Annotated[str, Field(max_length=40)]
    """When it was measured."""

    scenarios: list[ScenarioSummary] = Field(default_factory=list)
    """Its figures; without texts."""


class ReuseAnswer(Document):
    """The results for each query, in its order, the newest first."""

    results: list[list[ReusableResult]]
    """An empty list: there is none."""
