"""Operations are alike where nothing but the values that they read differs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.kernels.alike import Alike
from dmc.analysis.kernels.graph import outer_reads
from dmc.step_function import find_step

_LOOP = """linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]{label}}} ins({x}, {y} : tensor<4xf32>, tensor<4xf32>) outs({x} : tensor<4xf32>) {{
    ^bb0(%a: f32, %b: f32, %c: f32):
      %s = {scalar}
      linalg.yield %s : f32
  }} -> tensor<4xf32>"""


def _loop(x: str, y: str, scalar: str = "arith.addf %a, %b : f32", label: str = "") -> str:
    return _LOOP.format(x=x, y=y, scalar=scalar, label=label)


@pytest.fixture(autouse=True)
def context() -> Iterator[None]:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        yield


def _are_alike(one: str, other: str) -> bool:
    text = f"""func.func @step(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>, %u: f32, %v: f32, %h: f16,
        %k: bf16) {{
      %one = {one}
      %other = {other}
      return
    }}"""
    module = ir.Module.parse(text)
    ops = [view.operation for view in find_step(module).entry_block.operations][:2]
    alike = Alike()
    found = [alike.read(op) for op in ops]
    assert [read for _, read in found] == [tuple(outer_reads(op)) for op in ops]
    return found[0][0] == found[1][0]


@pytest.mark.parametrize(
    "other",
    [
        _loop("%y", "%z"),
        _loop("%x", "%one"),
        # Labels say nothing about what is computed.
        _loop("%x", "%y", label=', dm.label = "h.1"'),
    ],
)
def test_alike(other: str) -> None:
    assert _are_alike(_loop("%x", "%y"), other)


@pytest.mark.parametrize(
    "other",
    [
        _loop("%x", "%x"),
        _loop("%x", "%y", "arith.subf %a, %b : f32"),
        _loop("%x", "%y", "arith.addf %b, %a : f32"),
        _loop("%x", "%y", "arith.addf %a, %u : f32"),
        _loop("%x", "%y", "arith.addf %a, %b fastmath<fast> : f32"),
        _loop("%x", "%y", label=", other"),
    ],
)
def test_not_alike(other: str) -> None:
    assert not _are_alike(_loop("%x", "%y"), other)


def test_what_a_region_reads_from_outside_may_differ() -> None:
    assert _are_alike(_loop("%x", "%y", "arith.addf %a, %u : f32"), _loop("%z", "%y", "arith.addf %a, %v : f32"))


def test_a_fact_is_found_once() -> None:
    asked: list[str] = []

    def name(op: ir.Operation, prefix: str) -> str:
        asked.append(prefix)
        return prefix + op.name

    module = ir.Module.parse(
        "func.func @step() { %a = tensor.empty() : tensor<2xf32> %b = tensor.empty() : tensor<2xf32> return }"
    )
    alike = Alike()
    for view in [*find_step(module).entry_block.operations][:2]:
        kind, _ = alike.read(view.operation)
        assert alike.fact(kind, name, view.operation, "the ") == "the tensor.empty"
        assert alike.fact(kind, name, view.operation, "a ") == "a tensor.empty"
    assert asked == ["the ", "a "]


def test_types_of_operands_tell_operations_apart() -> None:
    assert not _are_alike("arith.extf %h : f16 to f32", "arith.extf %k : bf16 to f32")
