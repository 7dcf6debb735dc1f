"""The loss of a model that computes it itself: where it is in the model's output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from dmc.errors import ImportFailure

Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class OwnLoss:
    """read: from the model's output to the loss, or to (loss, auxiliary outputs)."""

    read: Reader


@dataclass(frozen=True)
class OfModel:
    """The loss of a phase: function(model, *batch). needs_loss: whether it has to return one."""

    function: Callable[..., Any]
    needs_loss: bool = True

    def called(self) -> Callable[..., Any]:
        """The function without its first argument, the model."""
        return partial(self.function, None)


def reader_of(loss: Any) -> Reader | None:
    """How `loss`, as given by a user, is read from the model's output; None where it is a function of output and
    targets, or of the model.

    None means the loss that `own_loss` finds; a number or a name the element of the output that is the loss.
    """
    if loss is None:
        return own_loss
    if isinstance(loss, OwnLoss):
        return loss.read
    if isinstance(loss, int | str) and not isinstance(loss, bool):
        return lambda output: element(output, loss)
    return None


def own_loss(output: Any) -> Any:
    """The loss that a model returns: itself, by name, or first."""
    if isinstance(output, Tensor):
        return output
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None and isinstance(output, tuple | list) and output:
        loss = output[0]
    if loss is None:
        raise ImportFailure(
            "loss", "the model returned no loss", hint="pass labels in the example, or a loss function as `loss=`"
        )
    return loss


def element(output: Any, key: int | str) -> Any:
    """The element of a model's output at a place or of a name. Raises ImportFailure where there is none."""
    # A tensor has attributes, but no elements by name.
    if isinstance(key, str) and isinstance(output, Tensor):
        raise _no_element(output, key)
    try:
        return getattr(output, key) if isinstance(key, str) and not isinstance(output, Mapping) else output[key]
    except (LookupError, TypeError, AttributeError) as error:
        raise _no_element(output, key) from error


def _no_element(output: Any, key: int | str) -> ImportFailure:
    place = f"loss={key!r} names no element of the model's output"
    if isinstance(output, Tensor):
        hint = "pass a function of the output and the targets, or leave `loss` out where the output is the loss"
        return ImportFailure("loss", f"{place}, a tensor of shape {list(output.shape)}", hint)
    has = f" of length {len(output)}" if isinstance(output, tuple | list) else ""
    hint = "pass the index or key of the loss in the output"
    return ImportFailure("loss", f"{place}, a {type(output).__name__}{has}", hint)


def check_given(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises ImportFailure where a model that computes its own loss, or a loss that takes the model, cannot be called
    with the example."""
    # What a decorator takes may be more than what it passes on.
    signature = inspect.signature(forward, follow_wrapped=False)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        if isinstance(forward, partial):
            name = getattr(forward.func, "__qualname__", type(forward.func).__name__)
            fact = f"cannot be passed to {name}, which takes the model and then {signature}: {error}"
            hint = "the loss of a phase is called with the model and the whole example: loss(model, *example)"
            raise ImportFailure("example", fact, hint) from error
        fact = f"cannot be passed to the model, forward{signature}: {error}"
        hint = "a model with its own loss takes the whole example; pass `loss`, a function, for one without"
        raise ImportFailure("example", fact, hint) from error
