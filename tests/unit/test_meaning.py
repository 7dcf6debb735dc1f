"""Equal dataflow has equal names, other dataflow other names."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.meaning import meaning
from dmc.errors import DmcError

HEAD = """
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
func.func private @double(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func private @twice(%z: tensor<8xf32>) -> tensor<8xf32> {
  %sum = arith.addf %z, %z : tensor<8xf32>
  return %sum : tensor<8xf32>
}
func.func private @square(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.mulf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func private @rows(%x: tensor<8xf32>, %y: tensor<4xf32>) -> tensor<12xf32> {
  %none = tensor.empty() : tensor<2x6xf32>
  %a = tensor.expand_shape %x [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %b = tensor.expand_shape %y [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  %c = tensor.insert_slice %a into %none[0, 0] [2, 4] [1, 1] : tensor<2x4xf32> into tensor<2x6xf32>
  %d = tensor.insert_slice %b into %c[0, 4] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<2x6xf32>
  %e = tensor.collapse_shape %d [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  return %e : tensor<12xf32>
}
"""
SUM = '{reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}'
ROWS = SUM.replace("{", "{dim = 0 : i64, ")
GATHER = '{dim = 0 : i64, group = #dm.group<@mesh, ["dp"]>}'
X, Y, HALF = "tensor<8xf32>", "tensor<4xf32>", "tensor<4xf32>"


def _reduce(name: str, of: str, type_: str, how: str = SUM) -> str:
    return f'%{name} = "dm.all_reduce"(%{of}) {how} : ({type_}) -> {type_}'


def _kernel(name: str, of: str, body: str) -> str:
    return f'%{name} = "dm.kernel"(%{of}) {{body = @{body}, flops = 8 : i64}} : ({X}) -> {X}'


def _meaning(*lines: str, gives: str = "a: 8") -> Any:
    """What a step of these lines, on `%x` of 8 and `%y` of 4 elements, means; `gives`: `name: elements`, by commas."""
    pairs = [(name.strip(), f"tensor<{size.strip()}xf32>") for name, size in (p.split(":") for p in gives.split(","))]
    results = ", ".join(f'{type_} {{dm.name = "r{i}"}}' for i, (_, type_) in enumerate(pairs))
    end = f"return {', '.join(f'%{name}' for name, _ in pairs)} : {', '.join(type_ for _, type_ in pairs)}"
    given = f'%x: {X} {{dm.name = "x", dm.role = "batch"}}, %y: {Y} {{dm.name = "y", dm.role = "batch"}}'
    body = "\n  ".join([*lines, end])
    return meaning(ir.Module.parse(f"{HEAD}\nfunc.func @step({given}) -> ({results}) {{\n  {body}\n}}"))


PACKED = (
    f'%p = "dm.pack"(%x, %y) {{offsets = array<i64: 0, 64>}} : ({X}, {Y}) -> tensor<68xf32>',
    _reduce("s", "p", "tensor<68xf32>"),
)
PLAIN = (_reduce("a", "x", X), _reduce("b", "y", Y))


def _unpack(first: int, second: int) -> str:
    return f'%a, %b = "dm.unpack"(%s) {{offsets = array<i64: {first}, {second}>}} : (tensor<68xf32>) -> ({X}, {Y})'


@pytest.mark.usefixtures("context")
class TestMeaning:
    """Each test compares two steps."""

    def test_a_bucket_is_its_members(self) -> None:
        assert _meaning(*PACKED, _unpack(0, 64), gives="a: 8, b: 4") == _meaning(*PLAIN, gives="a: 8, b: 4")

    def test_a_bucket_unpacked_otherwise_is_another(self) -> None:
        swapped = _meaning(*PACKED, _unpack(60, 0), gives="a: 8, b: 4")
        assert swapped.differences(_meaning(*PLAIN, gives="a: 8, b: 4")) == ["r0", "r1"]

    def test_start_and_wait_are_the_movement(self) -> None:
        start = f"""%h, %t = "dm.start"(%x) ({{
          ^bb0(%o: {X}):
            {_reduce("r", "o", X)}
            "dm.yield"(%r) : ({X}) -> ()
          }}) {{queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>}}
          : ({X}) -> (!dm.handle<{X}>, !dm.token)"""
        wait = f'%a = "dm.wait"(%h) : (!dm.handle<{X}>) -> {X}'
        assert _meaning(start, wait) == _meaning(PLAIN[0])

    def test_an_all_reduce_in_two_halves(self) -> None:
        scatter = f'%h = "dm.reduce_scatter"(%x) {ROWS} : ({X}) -> {HALF}'
        gather = f'%a = "dm.all_gather"(%h) {GATHER} : ({HALF}) -> {X}'
        assert _meaning(scatter, gather) == _meaning(PLAIN[0])
        slice_ = f'%h = "dm.all_slice"(%x) {GATHER} : ({X}) -> {HALF}'
        assert _meaning(slice_, gather) != _meaning(PLAIN[0])

    def test_a_bucket_of_rows_is_its_members(self) -> None:
        """Two reduce-scatters in one: the bucket's rows are the ranks."""
        pack = f'%p = "dm.kernel"(%x, %y) {{body = @rows}} : ({X}, {Y}) -> tensor<12xf32>'
        scatter = f'%s = "dm.reduce_scatter"(%p) {ROWS} : (tensor<12xf32>) -> tensor<6xf32>'
        unpack = f'%a, %b = "dm.unpack"(%s) {{offsets = array<i64: 0, 4>}} : (tensor<6xf32>) -> ({HALF}, tensor<2xf32>)'
        one = f'%a = "dm.reduce_scatter"(%x) {ROWS} : ({X}) -> {HALF}'
        other = f'%b = "dm.reduce_scatter"(%y) {ROWS} : ({Y}) -> tensor<2xf32>'
        assert _meaning(pack, scatter, unpack, gives="a: 4, b: 2") == _meaning(one, other, gives="a: 4, b: 2")

    def test_order_and_names_are_nothing(self) -> None:
        lines = (_kernel("a", "x", "double"), _kernel("c", "x", "square"), _kernel("b", "c", "double"))
        same = (_kernel("c", "x", "square"), _kernel("b", "c", "twice"), _kernel("a", "x", "twice"))
        assert _meaning(*lines, gives="a: 8, b: 8") == _meaning(*same, gives="a: 8, b: 8")

    def test_other_code_and_other_operands_are_something(self) -> None:
        first = _kernel("c", "x", "square")
        assert _meaning(first, _kernel("a", "c", "double")) != _meaning(first, _kernel("a", "c", "square"))
        assert _meaning(first, _kernel("a", "c", "double")) != _meaning(first, _kernel("a", "x", "double"))
        assert _meaning(PLAIN[0]) != _meaning(_reduce("a", "x", X, SUM.replace("sum", "max")))

    def test_computation_outside_a_kernel_is_refused(self) -> None:
        with pytest.raises(DmcError, match="run dm-form-kernels first"):
            _meaning(f"%a = arith.addf %x, %x : {X}")
