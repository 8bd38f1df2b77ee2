"""A model's signature: its inputs and outputs, and the check of a request's tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inferometer_serving.errors import invalid
from inferometer_serving.infer.datatypes import Datatype

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output; -1 stands for an open axis."""

    name: str
    datatype: Datatype
    shape: Shape
    is_optional: bool = False
    """Whether requests may omit it."""

    @property
    def has_open_batch(self) -> bool:
        """Return whether the first axis is open, which makes it the batch axis."""
        return bool(self.shape) and self.shape[0] == -1

    def check(self, shape: Shape) -> None:
        """Raise RequestRefusedError where a tensor of `shape` does not fit."""
        if len(shape) == len(self.shape):
            for wanted, given in zip(self.shape, shape, strict=True):
                if wanted not in (-1, given):
                    break
            else:
                return
        raise invalid(
            f"Input '{self.name}' was given with shape {list(shape)}, but the model takes "
            f"{list(self.shape)}, where -1 is any size: send a tensor of that shape."
        )


@dataclass(frozen=True, slots=True)
class Signature:
    """All tensors of a model, in the model's order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    input_by_name: Mapping[str, TensorSpec] = field(init=False, repr=False)
    output_by_name: Mapping[str, TensorSpec] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_by_name", {each.name: each for each in self.inputs})
        object.__setattr__(self, "output_by_name", {each.name: each for each in self.outputs})

    def input(self, name: str, datatype: str, shape: Shape) -> TensorSpec:
        """Return the input of that name. Raises RequestRefusedError if the tensor misfits."""
        spec = self.input_by_name.get(name)
        if spec is None:
            raise invalid(f"Input '{name}' was sent, but the model takes {_names(self.inputs)}.")
        if spec.datatype.name != datatype:
            raise invalid(
                f"Input '{name}' was sent as {datatype}, but the model takes "
                f"{spec.datatype.name}: send it as that."
            )
        spec.check(shape)
        return spec

    def output(self, name: str) -> TensorSpec:
        """Return the output of that name. Raises RequestRefusedError if there is none."""
        spec = self.output_by_name.get(name)
        if spec is None:
            raise invalid(
                f"Output '{name}' was requested, but the model has {_names(self.outputs)}."
            )
        return spec

    def check_complete(self, names: list[str]) -> None:
        """Raise RequestRefusedError unless `names` holds every input exactly once.

        Optional ones may be absent.
        """
        if len(names) == len(self.inputs) and len(set(names)) == len(names):
            return
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise invalid(f"Input '{twice[0]}' was sent more than once: send each input once.")
        needed = tuple(each for each in self.inputs if not each.is_optional)
        missing = [each.name for each in needed if each.name not in names]
        if missing:
            raise invalid(
                f"Input '{missing[0]}' is missing: the model takes {_names(needed)}; send each."
            )


def _names(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(f"'{each.name}'" for each in specs)
