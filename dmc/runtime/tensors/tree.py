"""Nested inputs and outputs: conversion between users' containers and the flat lists of a compiled step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dmc.errors import InputError
from dmc.program.signature import Signature, Tree


def flatten_call(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The batch tensors of a call `step(*args, **kwargs)`, in the order of `signature.batch`.

    Raises InputError where the containers, their keys or their constants differ from those of the example at
    compilation.
    """
    leaves: dict[int, Any] = {}
    if len(args) != len(signature.args["tuple"]):
        raise InputError(
            "call", f"expected {_count(signature.args)} positional inputs, got {len(args)}", _usage(signature)
        )
    for index, (tree, value) in enumerate(zip(signature.args["tuple"], args, strict=True)):
        leaves.update(_leaves(tree, value, f"positional input {index}"))
    if fact := _differing_keys(signature.kwargs["dict"], kwargs):
        raise InputError("call", fact, _usage(signature))
    for key, tree in signature.kwargs["dict"].items():
        leaves.update(_leaves(tree, kwargs[key], f"keyword input {key!r}"))
    return [leaves[index] for index in range(len(signature.batch))]


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The containers of `tree` with leaf i replaced by `leaves[i]`."""
    kind, content = _node(tree)
    if kind == "leaf":
        return leaves[content]
    if kind == "constant":
        return content
    if kind == "dict":
        return {key: unflatten(child, leaves) for key, child in content.items()}
    children = [unflatten(child, leaves) for child in content]
    return tuple(children) if kind == "tuple" else children


def leaf_indices(tree: Tree) -> Iterator[int]:
    """The leaf indices of `tree`, in the order of its containers."""
    kind, content = _node(tree)
    if kind == "leaf":
        yield content
    elif kind != "constant":
        for child in content.values() if kind == "dict" else content:
            yield from leaf_indices(child)


def _leaves(tree: Tree, value: Any, place: str) -> Iterator[tuple[int, Any]]:
    kind, content = _node(tree)
    if kind == "leaf":
        yield content, value
    elif kind == "constant":
        _check_constant(content, value, place)
    elif kind == "dict":
        if not isinstance(value, Mapping):
            raise InputError(place, f"expected a dict, got {type(value).__name__}", _AS_EXAMPLE)
        if fact := _differing_keys(content, value):
            raise InputError(place, fact, _AS_EXAMPLE)
        for key, child in content.items():
            yield from _leaves(child, value[key], f"{place}[{key!r}]")
    else:
        if not isinstance(value, tuple if kind == "tuple" else list):
            raise InputError(place, f"expected a {kind}, got {type(value).__name__}", _AS_EXAMPLE)
        if len(value) != len(content):
            raise InputError(place, f"expected {len(content)} elements, got {len(value)}", _AS_EXAMPLE)
        for index, child in enumerate(content):
            yield from _leaves(child, value[index], f"{place}[{index}]")


_AS_EXAMPLE = "nest the inputs like the example that the step was compiled with"


def _node(tree: Tree) -> tuple[str, Any]:
    ((kind, content),) = tree.items()
    return kind, content


def _check_constant(expected: Any, value: Any, place: str) -> None:
    if type(value) is type(expected) and value == expected:
        return
    raise InputError(
        place,
        f"compiled for the constant {expected!r}, got {value!r}",
        hint="compile another step with this value in the example",
    )


def _differing_keys(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    missing = [repr(key) for key in expected if key not in got]
    unexpected = [repr(key) for key in got if key not in expected]
    facts = [f"missing {', '.join(missing)}"] if missing else []
    facts += [f"unexpected {', '.join(unexpected)}"] if unexpected else []
    return " and ".join(facts)


def _count(tree: Tree) -> int:
    return len(tree["tuple"])


def _usage(signature: Signature) -> str:
    positional = ["_"] * _count(signature.args)
    keywords = [f"{key}=_" for key in signature.kwargs["dict"]]
    return f"call it as step({', '.join([*positional, *keywords])})"
