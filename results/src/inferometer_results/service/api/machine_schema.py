"""The answers of the API about machines, for its OpenAPI description."""

from pydantic import BaseModel, ConfigDict

_STRICT = ConfigDict(extra="forbid")


class TimedOperatorRow(BaseModel):
    """An operator of which layers were timed on a machine; a machine without any has one row."""

    model_config = _STRICT

    machine: str
    threads: int
    engines: str
    bricks: int
    kernels: int
    memory_bytes_per_second: float
    cache_bytes_per_second: float
    reference_spread: float | None
    """The noise floor: how far apart the quartiles of a matrix product in the same rounds are, as a
    share of it; null if it is not known."""
    operator: str | None
    layers: int
    nanoseconds: float
    """Of all these layers, the fastest kernel of each."""
    low_nanoseconds: float | None
    high_nanoseconds: float | None
    """The 95 % interval of that; null if a timing has no spread."""


class BoundModelRow(BaseModel):
    """The bounds of a model on a machine in a precision."""

    model_config = _STRICT

    model: str
    batch_size: int
    machine: str
    threads: int
    precision: str
    bound_nanoseconds: float
    low_nanoseconds: float | None
    high_nanoseconds: float | None
    """The 95 % interval of the bound; null if a timing has no spread."""
    noise_floor: str
    """One sentence; empty if nothing is known of it."""
    wrong: bool
    """The bound is above the measured latency."""
    critical_path_nanoseconds: float
    roofline_nanoseconds: float | None
    roofline_wrong: bool
    """The roofline is above the measured latency."""
    layers_without_roofline: int
    operators_without_roofline: str
    """How many layers the roofline takes for free, because their work is not known, and how many of
    each operator: "2 Loop, 1 If"."""
    layers_without_kernel: int
    operators_without_kernel: str
    """The same of layers that the bound takes for free, because their fastest timing is 0 ns."""
    measured_nanoseconds: float | None
    coverage: float
    faster: str
    """Variants that are faster than the first, each with its gain and the 95 % interval of it."""


class AdviceRow(BaseModel):
    """One piece of advice on a model on a machine."""

    model_config = _STRICT

    received_at: str
    """When the store received it."""
    model: str
    batch_size: int
    machine: str
    device: str
    threads: int
    engine: str
    precision: str
    """Of the model as it is."""
    nanoseconds: int
    """The median latency of an inference of the model as it is, without a server."""
    served_nanoseconds: int | None
    """The same through a server; null if it was not measured."""
    question: str
    """Q1 to Q6 of Benanza."""
    title: str
    sentence: str
    predicted_gain: float
    """The share of an inference that it should save."""
    predicted_gain_low: float | None
    predicted_gain_high: float | None
    """The 95 % interval of the predicted gain; null with too few values."""
    why_no_interval: str
    predicted_served_gain: float | None
    """The same saving as a share of the latency through a server."""
    was_tried: bool
    """Whether `inferometer advise --try` applied what can be applied."""
    achieved_gain: float | None
    """The share of the latency through a server that it saved; null if it was not measured."""
    achieved_gain_low: float | None
    achieved_gain_high: float | None
    settings: str
    """Fields of a run that apply it, as PATH=VALUE."""
    why_not_applied: str


class BrickRow(BaseModel):
    """The latency of a model on a machine, predicted from its layers."""

    model_config = _STRICT

    model: str
    batch_size: int
    machine: str
    threads: int
    nanoseconds: float
    uncertainty: float | None
    """How far the interpolated layers put the latency off, as a share of it; null if some layers
    have no time."""
    spread: float
    """How far apart the quartiles of the rounds are in which its layers were timed, as a share."""
    complete: bool
    """False if some layers have no time, and none interpolated: the latency is a least one."""
    layers: int
    layers_known: int
    layers_interpolated: int
    cost_per_million: float | None
    """What a million inferences cost, one after the other, in the currency of the price list; null
    without a price for the machine's processor, or if layers have no time."""
    microjoules_per_inference: int | None
    """The least that a VALID run of the model reported on such a processor; null without any."""


class GranularityRow(BaseModel):
    """How far predictions of the same models on a machine are off with one granularity."""

    model_config = _STRICT

    machine: str
    threads: int
    granularity: int
    """The most layers of a brick: of those that cut the models alike, the least."""
    models: int
    model_names: str
    """Rows of a machine with the same models are comparable."""
    error: float
    """The geometric-mean error, as a share."""
    speed_up: float
    """The time of one run of all models by that of one run of all bricks."""
    spread: float
    """How far apart the quartiles of a model's rounds are at most, as a share of its latency."""


class MeasuredNodeRow(BaseModel):
    """The newest value of a headline of a node."""

    model_config = _STRICT

    node: str
    kind: str
    started_at: str
    headline: str
    figure: str
    setting: str
    unit: str
    value: float
    low: float | None
    high: float | None
    cautions: str
    """Of the measurement that has the figure, one sentence each."""


class MeasuredFigureRow(BaseModel):
    """A figure of one measurement of a node."""

    model_config = _STRICT

    started_at: str
    figure: str
    setting: str
    unit: str
    value: float
    low: float | None
    high: float | None
    cautions: str
    """Of the measurement that has the figure, one sentence each."""
