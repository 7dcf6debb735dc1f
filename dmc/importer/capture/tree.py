"""Nested containers of tensors as the JSON trees of `dmc.program.signature.Tree`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dmc.errors import ImportFailure
from dmc.program.signature import Tree


def flatten(value: Any, name: str, leaves: list[tuple[str, torch.Tensor]]) -> Tree:
    """The tree of `value`; appends (path, tensor) to `leaves`, continuing their numbering.

    Tensors are leaves; numbers, strings, booleans and None are constants of the compiled step; tuples, lists and
    mappings with string keys are containers. Raises ImportFailure for anything else.
    """
    if isinstance(value, torch.Tensor):
        leaves.append((name, value))
        return {"leaf": len(leaves) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return {"constant": value}
    if isinstance(value, Mapping):
        return {"dict": {str(key): flatten(item, _join(name, str(key)), leaves) for key, item in value.items()}}
    if isinstance(value, Sequence):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [flatten(item, _join(name, str(index)), leaves) for index, item in enumerate(value)]}
    hint = "pass tensors in tuples, lists and dictionaries" + (
        "; torch.as_tensor(array) makes one" if hasattr(value, "__array__") else ""
    )
    raise ImportFailure(name or "example", f"is no tensor, but a {type(value).__name__}", hint)


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The nested value that `tree` describes, with `leaves[i]` at leaf i."""
    ((kind, content),) = tree.items()
    match kind:
        case "leaf":
            return leaves[content]
        case "constant":
            return content
        case "tuple":
            return tuple(unflatten(item, leaves) for item in content)
        case "list":
            return [unflatten(item, leaves) for item in content]
        case "dict":
            return {key: unflatten(item, leaves) for key, item in content.items()}
        case _:
            raise ValueError(f"not a tree: {kind}")


def _join(name: str, part: str) -> str:
    return f"{name}.{part}" if name else part
