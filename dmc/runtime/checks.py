"""Checks of a step's arguments, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dmc.errors import ArtifactError, InputError
from dmc.program.signature import Signature, StateSpec, counter_of
from dmc.runtime.files.artifact import EVALUATION, TRAINING, Artifact, kind_of

_CONTROLS = ("lr", "guard")


class Rates(Protocol):
    """A scheduler of learning rates, such as PyTorch's."""

    def get_last_lr(self) -> Sequence[Any]:
        """The learning rate of each group."""
        ...


LearningRates = float | Sequence[float] | Rates


def rates_of(lr: LearningRates, signature: Signature) -> np.ndarray:
    """f32[number of groups]; raises InputError."""
    groups = len(signature.learning_rates)
    given: Any = lr
    if hasattr(given, "get_last_lr"):
        _check_momentum(given)
        given = given.get_last_lr()
    # A tensor or an array of one or several.
    given = given.tolist() if hasattr(given, "tolist") else given
    try:
        rates = [float(rate) for rate in given] if isinstance(given, Sequence) else [float(given)] * groups
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("lr", f"expected a number or {groups} numbers, got {lr!r}") from error
    if len(rates) != groups:
        raise InputError("lr", f"expected {groups} learning rates, one per parameter group, got {len(rates)}")
    with np.errstate(over="ignore"):
        found = np.asarray(rates, np.float32)
    if bad := [rate for rate, each in zip(rates, found, strict=True) if not (np.isfinite(each) and rate >= 0)]:
        raise InputError("lr", f"expected numbers of at least 0 that are finite in float32, got {bad[0]}")
    return found


def _check_momentum(scheduler: Any) -> None:
    """Raises InputError where a scheduler of the user's own optimizer changes more than the rates."""
    if getattr(scheduler, "cycle_momentum", False):
        fact = f"{type(scheduler).__name__} also cycles momentum, which is a constant of a compiled step"
        raise InputError("lr", fact, hint="create it with cycle_momentum=False")
    # Of schedulers that run one after the other, or together.
    for each in getattr(scheduler, "_schedulers", ()):
        _check_momentum(each)


def not_finite(loss: float) -> str:
    """What is not finite, where the guard has found that something is not."""
    norm = "" if not np.isfinite(loss) else ", but the norm of the gradients, by which they are clipped, is not finite"
    return f"the loss is {loss:g}{norm}"


def in_order(batch: Mapping[str, Any], signature: Signature) -> list[Any]:
    """The inputs of a step by their names, in the order of the signature; raises InputError."""
    names = [spec.name for spec in signature.batch]
    if len(batch) != len(names) or not all(name in batch for name in names):
        fact = f"expected the inputs {', '.join(names)}; got {', '.join(batch)}"
        raise InputError("call", fact, hint="pass each batch tensor exactly once")
    return [batch[name] for name in names]


def check_artifact(artifact: Artifact) -> None:
    """Raises ArtifactError where the signature requires what this runtime does not support."""
    signature = artifact.signature
    facts = [f"has no code for {kind!r}" for kind in _without_code(artifact)]
    for name, program in artifact.programs.items():
        facts += _misnamed(name, program)
        facts += [f"has no code for {kind!r} for its {name}" for kind in _without_code(program)]
        if (apart := artifact.job.state_apart(program.job)) is not None:
            facts.append(f"has {apart!r} elsewhere for its {name}")
        other = program.signature
        split = [spec.name for spec in signature.state if signature.layout_of(spec) != other.layout_of(spec)]
        split += [spec.name for spec in signature.state if _holders(signature, spec) != _holders(other, spec)]
        if split or signature.mesh != other.mesh or program.job.size != artifact.job.size:
            facts.append(f"is split over ranks in another way for its {name}: {', '.join(split)}")
    if sorted(spec.name for spec in signature.controls) != sorted(_CONTROLS):
        facts.append(f"has the controls {[spec.name for spec in signature.controls]}, expected {list(_CONTROLS)}")
    if [spec.name for spec in signature.outputs[:2]] != ["loss", "finite"]:
        facts.append("has outputs that do not begin with 'loss' and 'finite'")
    programs = [artifact, *artifact.programs.values()]
    counters = {counter_of(each.signature.phase) for each in programs if each.signature.controls}
    if not counters <= {spec.name for spec in signature.state if spec.role == "counter"}:
        facts.append("does not have a step counter for each phase in its state")
    inputs = {name for each in programs if each.signature.controls for name in each.signature.kwargs["dict"]}
    if taken := {"lr", "check_finite"} & inputs:
        facts.append(f"has an input {', '.join(sorted(taken))}, a name reserved for calls: rename the input")
    if facts:
        raise ArtifactError("artifact", "; ".join(facts), hint="compile the step again")


def _misnamed(name: str, program: Artifact) -> list[str]:
    own, kind = program.signature, kind_of(name)
    is_right = kind == (own.phase or (TRAINING if own.controls else EVALUATION))
    return [] if is_right else [f"has a program '{name}' of {own.phase or 'no phase'}"]


def _holders(signature: Signature, spec: StateSpec) -> Sequence[int] | None:
    return signature.holders.get(spec.name)


def _without_code(artifact: Artifact) -> list[str]:
    """The kinds of devices that it is for, but has no code for."""
    kinds = artifact.target.split("+")
    return [kind for kind in kinds if kind not in artifact.modules and (kind != "cuda" or artifact.code is None)]
