"""The price list: what an hour of a node costs, and with it a million inferences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from inferometer_api.plan.cluster_objects import INSTANCE_TYPE_LABEL
from inferometer_api.results.result import ResultDocument
from inferometer_api.spec.yaml_text import UnreadableTextError, read_yaml
from inferometer_results.quantity import DASH, significant
from inferometer_results.store.server_machine import node_labels, server_machine

_SECONDS = 3600.0
_EXPECTED = (
    "It has a currency and nodes, each with perHour and one of node, instanceType, labels, cpu and "
    "gpu."
)
_MILLION = 1e6

_LITERAL = str.maketrans({"[": "[[]", "?": "[?]"})
"""Only `*` is a pattern."""
_Text = Annotated[str, Field(min_length=1, max_length=253)]


def _no_truth_value(value: object) -> object:
    """Refuse true and false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("no_number", "Input should be a number")
    return value


class PriceListError(ValueError):
    """A price list that cannot be understood; the message is a sentence with what to do."""


@dataclass(frozen=True, slots=True)
class PricedNodes:
    """The nodes that served a result, by what a price list can name."""

    names: tuple[str, ...] = ()
    cpu: str = ""
    gpu: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that the run required of its nodes, and their instance type."""


class NodePrice(BaseModel):
    """One entry: which nodes, and their price. All selectors that are given must match."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    per_hour: Annotated[
        float,
        BeforeValidator(_no_truth_value),
        Field(alias="perHour", gt=0, lt=1e6, allow_inf_nan=False),
    ]
    node: _Text | None = None
    instance_type: Annotated[_Text | None, Field(alias="instanceType")] = None
    labels: dict[str, str] = Field(default_factory=dict)
    cpu: _Text | None = None
    gpu: _Text | None = None

    @model_validator(mode="after")
    def _check_selectors(self) -> Self:
        """Require a selector: an entry without any would price every node."""
        if not (self.node or self.instance_type or self.labels or self.cpu or self.gpu):
            raise PydanticCustomError("no_selector", 'Say which nodes it is for; node: "*" is all')
        return self

    def matches(self, name: str, nodes: PricedNodes) -> bool:
        """Return whether the entry is for one of the nodes; `*` stands for any characters."""
        wanted = dict(self.labels)
        if self.instance_type is not None:
            wanted[INSTANCE_TYPE_LABEL] = self.instance_type
        texts = ((self.node, name), (self.cpu, nodes.cpu), (self.gpu, nodes.gpu))
        return all(
            pattern is None or fnmatchcase(found, pattern.translate(_LITERAL))
            for pattern, found in texts
        ) and all(nodes.labels.get(label) == value for label, value in wanted.items())


class PriceList(BaseModel):
    """Prices of nodes; of several entries that match the first holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: Annotated[str, Field(min_length=1, max_length=8)]
    nodes: Annotated[tuple[NodePrice, ...], Field(max_length=1000)]

    def per_hour(self, nodes: PricedNodes) -> float | None:
        """Return what the nodes cost in an hour; None if one of them has no price.

        A node counts as a whole, however little of it the server uses.
        """
        found = [
            next((entry.per_hour for entry in self.nodes if entry.matches(name, nodes)), None)
            for name in dict.fromkeys(nodes.names or ("",))
        ]
        known = [price for price in found if price is not None]
        return sum(known) if known and len(known) == len(found) else None

    def of_node_set(self, nodes: Mapping[str, Any]) -> float | None:
        """Return the same for nodes as the store keeps them."""
        return self.per_hour(nodes_of_row(nodes, nodes["labels"]))

    def per_million(self, nodes: PricedNodes, samples_per_second: float) -> float | None:
        """Return what a million inferences cost at a rate; None without a price or a rate."""
        price = self.per_hour(nodes)
        if price is None or not samples_per_second > 0:
            return None
        return price / _SECONDS / samples_per_second * _MILLION

    def text(self, cost: float | None) -> str:
        """Return a cost with its currency: 1.23 EUR."""
        return DASH if cost is None else f"{significant(cost)} {self.currency}"


def read_prices(text: str, source: str) -> PriceList:
    """Return the price list in a YAML text; `source` names it in messages.

    Raises PriceListError.
    """
    try:
        content = read_yaml(text).data
    except UnreadableTextError as error:
        raise PriceListError(f"{source} is not a price list: {error}.") from error
    try:
        return PriceList.model_validate(content)
    except ValidationError as error:
        if not isinstance(content, Mapping):
            raise PriceListError(
                f"{source} is not a price list: the file is no mapping. {_EXPECTED}"
            ) from error
        first = error.errors()[0]
        place = "".join(
            f"[{each}]" if isinstance(each, int) else f".{each}" for each in first["loc"]
        )
        raise PriceListError(
            f"{source} is not a price list: {place.lstrip('.') or 'the file'}: "
            f"{first['msg'][:1].lower()}{first['msg'][1:]}. {_EXPECTED}"
        ) from error


def nodes_of_row(row: Mapping[str, Any], labels: Sequence[Mapping[str, Any]]) -> PricedNodes:
    """Return the nodes of a result by its row in the store and the labels there."""
    return PricedNodes(
        tuple(filter(None, row["node"].split(", "))),
        row["cpu"],
        row["gpu"],
        {each["name"]: each["value"] for each in labels if each["origin"] == "node"},
    )


def nodes_of(document: ResultDocument) -> PricedNodes:
    """Return the nodes of a result."""
    machine = server_machine(document)
    return PricedNodes(machine.nodes, machine.cpu, machine.gpu, node_labels(document))
