"""What the compiler defines, something makes: ops of the dialect, and kernels written by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from dmc import dialect
from dmc.composites import LOSS_AND_GRADIENT, TRAITS, UPDATE
from dmc.importer.composites.base import REGISTRY
from dmc.kernels.implementation import implementations

DMC = Path(__file__).resolve().parents[1] / "dmc"
UNMADE = {"broadcast": "no plan has a use for it"}


def _built(path: Path) -> Iterator[str]:
    """The names of the dialect that a file calls: `all_gather` of `dm.all_gather(…)`, AllGatherOp of its class."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="dm" | "dialect"), attr=name)):
                yield name
            case ast.Call(func=ast.Name(id=name)) if path.parent.name == "dialect":
                yield name
            case _:
                continue


def test_every_op_is_made_by_some_pass() -> None:
    classes = [value for name, value in vars(dialect).items() if name.endswith("Op")]
    built = {name for path in DMC.rglob("*.py") if path.stem != "_dm_gen" for name in _built(path)}
    ops = {cls.OPERATION_NAME.removeprefix("dm."): cls.__name__ for cls in classes}
    assert {name for name, cls in ops.items() if built.isdisjoint({name, f"{name}_", cls})} == UNMADE.keys()


def test_every_kernel_by_hand_can_be_reached() -> None:
    whole = {kind for kind, traits in TRAITS.items() if traits.is_whole}
    assert {each.kind for each in implementations()} == {*whole, LOSS_AND_GRADIENT}


def test_every_kind_with_traits_is_a_composite_that_something_makes() -> None:
    defined = {name for name in REGISTRY if not name.startswith(UPDATE)}
    assert {kind for kind in TRAITS if kind not in defined} == {LOSS_AND_GRADIENT}
