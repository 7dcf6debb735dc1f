"""Nested inputs against the trees of a signature."""

from __future__ import annotations

from typing import Any

import pytest

from dmc.errors import InputError
from dmc.program.signature import Signature, TensorSpec, Tree
from dmc.runtime.tensors.tree import flatten_call, leaf_indices, unflatten
from tests.linear_step import SIGNATURE


def _flatten(*args: Any, **kwargs: Any) -> list[Any]:
    return flatten_call(SIGNATURE, args, kwargs)


def test_leaves_come_in_batch_order() -> None:
    # Another order of the keys, on purpose.
    assert _flatten("x", {"ids": "ids", "y": "y"}, mean=True, mask="mask") == ["x", "y", "ids", "mask"]


def test_order_is_by_leaf_number_not_by_place() -> None:
    args: Tree = {"tuple": [{"list": [{"leaf": 1}, {"tuple": [{"leaf": 0}]}]}]}
    batch = (TensorSpec("a", "f32", ()), TensorSpec("b", "f32", ()))
    signature = Signature((), (), batch, (), args, {"dict": {}}, None, (0.1,))
    assert flatten_call(signature, (["second", ("first",)],), {}) == ["first", "second"]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("x",), {"mask": 0, "mean": True}, r"call: expected 2 positional inputs, got 1"),
        (("x", {"y": 0, "ids": 0}), {"mean": True}, r"call: missing 'mask'"),
        (("x", {"y": 0, "ids": 0}), {"mask": 0, "mean": True, "more": 1}, r"call: unexpected 'more'"),
        (
            ("x", {"y": 0, "idx": 0}),
            {"mask": 0, "mean": True},
            r"input 1: missing 'ids' and unexpected 'idx'",
        ),
        (("x", ("y", "ids")), {"mask": 0, "mean": True}, r"positional input 1: expected a dict, got tuple"),
        (
            ("x", {"y": 0, "ids": 0}),
            {"mask": 0, "mean": False},
            r"'mean': compiled for the constant True, got F",
        ),
        (
            ("x", {"y": 0, "ids": 0}),
            {"mask": 0, "mean": 1},
            r"'mean': compiled for the constant True, got 1",
        ),
    ],
)
def test_another_nesting_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _flatten(*args, **kwargs)


def test_message_shows_how_to_call() -> None:
    with pytest.raises(InputError) as caught:
        _flatten()
    assert caught.value.hint == "call it as step(_, _, mask=_, mean=_)"


def test_lists_and_tuples_are_different() -> None:
    args: Tree = {"tuple": [{"tuple": [{"leaf": 0}]}]}
    signature = Signature((), (), (TensorSpec("a", "f32", ()),), (), args, {"dict": {}}, None, (0.1,))
    assert flatten_call(signature, ((5,),), {}) == [5]
    with pytest.raises(InputError, match="positional input 0: expected a tuple, got list"):
        flatten_call(signature, ([5],), {})
    with pytest.raises(InputError, match="positional input 0: expected 1 elements, got 2"):
        flatten_call(signature, ((5, 6),), {})


def test_unflatten_rebuilds_containers() -> None:
    tree: Tree = {"dict": {"a": {"leaf": 1}, "b": {"list": [{"leaf": 0}, {"constant": None}]}, "c": {"tuple": []}}}
    assert unflatten(tree, ["zero", "one"]) == {"a": "one", "b": ["zero", None], "c": ()}
    assert list(leaf_indices(tree)) == [1, 0]
