"""The rules that make up a plan: frozen data, printed as the user wrote them."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import ClassVar, Literal, TypeAlias


@dataclass(frozen=True)
class Rule:
    """The base of all rules: the name of the ready-made plan it belongs to ("" for the user's own), shown by `str`."""

    verb: ClassVar[str]
    # So many leading required arguments read best without their names.
    unnamed: ClassVar[int] = 1
    recipe: str = field(default="", kw_only=True)

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes the rule names."""
        return tuple(getattr(self, each.name) for each in fields(self) if each.name == "axis")

    def __str__(self) -> str:
        given = [each for each in fields(self) if each.name != "recipe" and getattr(self, each.name) != each.default]
        first = [_text(getattr(self, each.name)) for each in given[: self.unnamed] if each.default is MISSING]
        rest = [f"{each.name}={_text(getattr(self, each.name))}" for each in given[len(first) :]]
        call = f"{self.verb}({', '.join(first + rest)})"
        return f"{self.recipe}: {call}" if self.recipe else call


@dataclass(frozen=True)
class DataParallel(Rule):
    """The batch is split over `axis`; see `Recipe.data_parallel` for the stages of ZeRO."""

    verb = "data_parallel"
    axis: str
    zero: int = 0


@dataclass(frozen=True)
class Shard(Rule):
    """Dimension `dim` of every matching parameter and buffer is split over `axis`, each of `blocks` equal blocks."""

    verb = "shard"
    pattern: str
    dim: int
    axis: str
    blocks: int = 1
    optional: bool = False


@dataclass(frozen=True)
class ExpertParallel(Rule):
    """The experts, dimension 0 of every matching parameter, are split over `axis`."""

    verb = "expert_parallel"
    dim: ClassVar[int] = 0
    blocks: ClassVar[int] = 1
    axis: str
    pattern: str


@dataclass(frozen=True)
class Replicate(Rule):
    """Every matching parameter and buffer is replicated: undoes earlier rules and ZeRO."""

    verb = "replicate"
    pattern: str


@dataclass(frozen=True)
class ShardInput(Rule):
    """Dimension `dim` of every matching batch input is split over `axis` too."""

    verb = "shard_input"
    blocks: ClassVar[int] = 1
    pattern: str
    dim: int
    axis: str


@dataclass(frozen=True)
class ReplicateInput(Rule):
    """Every matching batch input is replicated: undoes data parallelism and earlier rules."""

    verb = "replicate_input"
    pattern: str


@dataclass(frozen=True)
class ShardActivation(Rule):
    """Dimension `dim` of the output of every matching module is split over `axis`."""

    verb = "shard_activation"
    pattern: str
    dim: int
    axis: str
    optional: bool = False


@dataclass(frozen=True)
class Megatron(Rule):
    """Attention, MLPs and the vocabulary are split over `axis`: stands for the rules that a model's structure asks for.

    `dmc.analysis.requests.structure` puts these in its place, when the model is known.
    """

    verb = "megatron"
    axis: str


@dataclass(frozen=True)
class SequenceParallel(Rule):
    """Inputs and outputs of matching modules have their tokens split over `axis`: along `dim`; None: by the batch, or
    by the sequence where the batch is not divisible.
    """

    verb = "sequence_parallel"
    axis: str
    between: tuple[str, ...]
    dim: int | None = None


@dataclass(frozen=True)
class Recompute(Rule):
    """What the matching modules compute inside is computed again for the backward pass, not kept."""

    verb = "recompute"
    pattern: str


@dataclass(frozen=True)
class Keep(Rule):
    """What the matching modules compute for the backward pass is kept: undoes earlier rules, and whatever a memory cap
    suggests."""

    verb = "keep"
    pattern: str


@dataclass(frozen=True)
class Offload(Rule):
    """What the matching modules compute for the backward pass waits for it in host memory."""

    verb = "offload"
    pattern: str


@dataclass(frozen=True)
class OffloadOptimizer(Rule):
    """The optimizer's state of every matching parameter waits in host memory between its uses."""

    verb = "offload_optimizer"
    pattern: str = "*"


@dataclass(frozen=True)
class Pipeline(Rule):
    """The model is cut into stages, which run on the ranks along `axis`; see `Recipe.pipeline`."""

    verb = "pipeline"
    axis: str
    cut: tuple[str, ...] | Literal["balanced"]
    microbatches: int | None = None
    schedule: str = "1f1b"
    chunks: int = 1


# The rules about what is kept for the backward pass.
Keeping: TypeAlias = Recompute | Keep | Offload


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
