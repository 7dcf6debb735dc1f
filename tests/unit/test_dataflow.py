"""Equal values have equal numbers, however they are computed and moved; other values have others."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from dmc._mlir import ir
from dmc.analysis.dataflow.dataflow import mesh_of_module, step_dataflow
from dmc.errors import DmcError, ProofError
from dmc.mesh import Mesh
from dmc.program.dataflow import Apply, Dataflow, Received, Sent, Step
from dmc.proof.expected import expected_of
from dmc.proof.meaning import Meaning
from dmc.proof.values import Values

MESH = """
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
"""
HEAD = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>
#rows = affine_map<(d0, d1) -> (d0)>
"""
X, ROW = "tensor<4x4xf32>", "tensor<4xf32>"
GROUP = 'group = #dm.group<@mesh, ["dp"]>'
SUM = f'reduction = #dm.reduction<"sum">, accumulate = f32, {GROUP}'


def _values(*steps: str) -> list[list[int]]:
    """For each of the steps, which end in `return %a`, what `%a` is on each rank; they share `%x`, `%y` and `%r`."""
    values, found = Values(), list[list[int]]()
    for text in steps:
        kind = text.rpartition(":")[2].strip()
        given = ", ".join(f'%{n}: {t} {{dm.name = "{n}", dm.role = "batch"}}' for n, t in _INPUTS.items())
        function = f'func.func @step({given}) -> ({kind} {{dm.name = "a"}}) {{\n{text}\n}}'
        module = ir.Module.parse(HEAD + MESH + function)
        step = step_dataflow(module)
        held = Meaning(mesh_of_module(module), values, step.functions).of_step(step)
        found.append([own[step.outputs["a"]] for own in held.values()])
    return found


_INPUTS = {"x": X, "y": X, "r": ROW, "v": "tensor<8xf32>", "w": "tensor<8xf32>"}


def _generic(name: str, inputs: str, maps: str, arguments: str, *body: str, out: str = "%none", result: str = X) -> str:
    """A generic over 4 × 4 places; `maps` are those of inputs and results."""
    types = ", ".join(X for _ in inputs.split(","))
    kinds = '["parallel", "parallel"]' if result == X else '["parallel", "reduction"]'
    lines = "\n    ".join(body)
    return f"""%{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = {kinds}}}
      ins({inputs} : {types}) outs({out} : {result}) {{
    ^bb0({arguments}, %o: f32):
    {lines}
  }} -> {result}"""


NONE = f"%none = tensor.empty() : {X}\n"
ADD = _generic(
    "s", "%x, %y", "#id, #id, #id", "%i: f32, %j: f32", "%0 = arith.addf %i, %j : f32", "linalg.yield %0 : f32"
)
SQUARE = _generic("a", "%s", "#id, #id", "%i: f32", "%0 = arith.mulf %i, %i : f32", "linalg.yield %0 : f32")
BOTH = ("%0 = arith.addf %i, %j : f32", "%1 = arith.mulf %0, %0 : f32", "linalg.yield %1 : f32")
END = f"\nreturn %a : {X}"


@pytest.mark.usefixtures("context")
class TestElements:
    """What is computed, element by element and in loops."""

    def test_fused_or_not(self) -> None:
        fused = _generic("a", "%x, %y", "#id, #id, #id", "%i: f32, %j: f32", *BOTH)
        swapped = _generic("a", "%y, %x", "#id, #id, #id", "%i: f32, %j: f32", *BOTH)
        whole = f"%s = arith.addf %x, %y : {X}\n%a = arith.mulf %s, %s : {X}"
        one, other, tensors, wrong = _values(
            NONE + ADD + "\n" + SQUARE + END, NONE + fused + END, whole + END, NONE + swapped + END
        )
        assert one == other == tensors != wrong

    def test_what_is_read_elsewhere_is_something_else(self) -> None:
        plain = _generic("a", "%x, %y", "#id, #id, #id", "%i: f32, %j: f32", *BOTH)
        turned = _generic("a", "%x, %y", "#id, #turned, #id", "%i: f32, %j: f32", *BOTH)
        one, other = _values(NONE + plain + END, NONE + turned + END)
        assert one != other

    def test_a_reshape_and_a_filled_tensor(self) -> None:
        flat = f"""%c = arith.constant dense<2.0> : tensor<16xf32>
          %f = tensor.collapse_shape %x [[0, 1]] : {X} into tensor<16xf32>
          %p = arith.mulf %f, %c : tensor<16xf32>
          %a = tensor.expand_shape %p [[0, 1]] output_shape [4, 4] : tensor<16xf32> into {X}"""
        filled = f"""%two = arith.constant 2.0 : f32
          %none = tensor.empty() : {X}
          %c = linalg.fill ins(%two : f32) outs(%none : {X}) -> {X}
          %a = arith.mulf %x, %c : {X}"""
        one, other, wrong = _values(flat + END, filled + END, filled.replace("2.0", "3.0") + END)
        assert one == other != wrong

    def test_results_of_one_reduction_are_what_they_are_alone(self) -> None:
        """Two reductions side by side in one generic, and each by itself."""
        zero = f"%z = arith.constant dense<0.0> : {ROW}\n"
        end = f"\nreturn %a : {ROW}"
        add, largest = "%p = arith.addf %o, %i : f32", "%q = arith.maximumf %n, %i : f32"
        alone = _generic("a", "%x", "#id, #rows", "%i: f32", add, "linalg.yield %p : f32", out="%z", result=ROW)
        pair = f"""%u, %a = linalg.generic {{indexing_maps = [#id, #rows, #rows],
            iterator_types = ["parallel", "reduction"]}} ins(%x : {X}) outs(%z, %z : {ROW}, {ROW}) {{
          ^bb0(%i: f32, %n: f32, %o: f32):
            {largest}
            {add}
            linalg.yield %q, %p : f32, f32
          }} -> ({ROW}, {ROW})"""
        first, second, other = _values(zero + alone + end, zero + pair + end, zero + pair + end.replace("%a", "%u"))
        assert first == second != other

    def test_a_transposition_that_is_taken_back_is_none(self) -> None:
        cube, turned, flat = "tensor<2x2x4xf32>", "tensor<4x2x2xf32>", "tensor<4x4xf32>"
        there = f"""%c = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 4] : {X} into {cube}
          %e = tensor.empty() : {turned}
          %t = linalg.transpose ins(%c : {cube}) outs(%e : {turned}) permutation = [2, 0, 1]
          %f = tensor.collapse_shape %t [[0], [1, 2]] : {turned} into {flat}"""
        back = f"""
          %none = tensor.empty() : {flat}
          %a = linalg.transpose ins(%f : {flat}) outs(%none : {flat}) permutation = [1, 0]"""
        same = f"%a = tensor.collapse_shape %x [[0, 1]] : {X} into tensor<16xf32>\nreturn %a : tensor<16xf32>"
        one, other, wrong = _values(there + back + END, same, there.replace("%f =", "%a =") + END)
        assert one == other != wrong

    def test_two_transpositions_are_one(self) -> None:
        """Rows and columns of blocks change places, then those of the blocks; or both at once."""
        cut, last = "tensor<2x2x2x2xf32>", f"%a = tensor.collapse_shape %t [[0, 1], [2, 3]] : BLOCKS into {X}"
        blocks = f"%c = tensor.expand_shape %x [[0, 1], [2, 3]] output_shape [2, 2, 2, 2] : {X} into {cut}\n"
        empty = f"%e = tensor.empty() : {cut}\n"
        both = f"%t = linalg.transpose ins(%c : {cut}) outs(%e : {cut}) permutation = [2, 3, 0, 1]\n"
        first = f"%s = linalg.transpose ins(%c : {cut}) outs(%e : {cut}) permutation = [2, 1, 0, 3]\n"
        second = f"%t = linalg.transpose ins(%s : {cut}) outs(%e : {cut}) permutation = [0, 3, 2, 1]\n"
        end = last.replace("BLOCKS", cut) + END
        one, other, wrong = _values(
            blocks + empty + both + end,
            blocks + empty + first + second + end,
            blocks + empty + second.replace("%s", "%c") + end,
        )
        assert one == other != wrong

    def test_a_transposition_before_or_behind_a_reshape(self) -> None:
        cube, flat = "tensor<2x2x4xf32>", "tensor<4x4xf32>"
        before = f"""%c = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 4] : {X} into {cube}
          %none = tensor.empty() : tensor<4x2x2xf32>
          %t = linalg.transpose ins(%c : {cube}) outs(%none : tensor<4x2x2xf32>) permutation = [2, 0, 1]
          %a = tensor.collapse_shape %t [[0], [1, 2]] : tensor<4x2x2xf32> into {flat}"""
        behind = f"""%none = tensor.empty() : {flat}
          %a = linalg.transpose ins(%x : {X}) outs(%none : {flat}) permutation = [1, 0]"""
        one, other, wrong = _values(before + END, behind + END, before.replace("[2, 0, 1]", "[2, 1, 0]") + END)
        assert one == other != wrong

    def test_a_loop_is_its_iterations(self) -> None:
        bounds = "\n".join(f"%c{i} = arith.constant {i} : index" for i in range(3))
        loop = f"""{bounds}
          %a = scf.for %i = %c0 to %c2 step %c1 iter_args(%s = %x) -> ({X}) {{
            %n = arith.addf %s, %y : {X}
            scf.yield %n : {X}
          }}"""
        line = f"%s = arith.addf %x, %y : {X}\n%a = arith.addf %s, %y : {X}"
        one, other, wrong = _values(loop + END, line + END, line.replace("%s, %y", "%s, %s") + END)
        assert one == other != wrong

    def test_what_cannot_be_followed_is_an_error(self) -> None:
        with pytest.raises(DmcError, match=r"builtin.unrealized_conversion_cast: is an operation whose dataflow"):
            _values(f"%a = builtin.unrealized_conversion_cast %x : {X} to {X}" + END)


@pytest.mark.usefixtures("context")
class TestMovements:
    """What ranks send each other."""

    def test_a_bucket_is_its_members(self) -> None:
        eight, end = "tensor<8xf32>", "\nreturn %a : tensor<8xf32>"
        packed = f"""%p = "dm.pack"(%v, %w) {{offsets = array<i64: 0, 64>}} : ({eight}, {eight}) -> tensor<72xf32>
          %s = "dm.all_reduce"(%p) {{{SUM}}} : (tensor<72xf32>) -> tensor<72xf32>
          %a, %b = "dm.unpack"(%s) {{offsets = array<i64: 0, 64>}} : (tensor<72xf32>) -> ({eight}, {eight})"""
        plain = f'%a = "dm.all_reduce"(%v) {{{SUM}}} : ({eight}) -> {eight}'
        one, other, second, largest = _values(
            packed + end, plain + end, packed + end.replace("%a", "%b"), plain.replace("sum", "max") + end
        )
        assert one == other and one[0] == one[1]
        assert one not in (second, largest)

    def test_an_all_reduce_in_two_halves(self) -> None:
        halves = f"""%h = "dm.reduce_scatter"(%x) {{dim = 1 : i64, {SUM}}} : ({X}) -> tensor<4x2xf32>
          %a = "dm.all_gather"(%h) {{dim = 1 : i64, {GROUP}}} : (tensor<4x2xf32>) -> {X}"""
        whole = f'%a = "dm.all_reduce"(%x) {{{SUM}}} : ({X}) -> {X}'
        sliced = halves.replace("reduce_scatter", "all_slice").replace(f", {SUM}", f", {GROUP}")
        rows = halves.replace("dim = 1", "dim = 0").replace("4x2", "2x4")
        one, other, wrong = _values(rows + END, whole + END, sliced + END)
        assert one == other != wrong

    def test_along_a_dimension_that_is_not_the_first(self) -> None:
        """As dm-flatten-collectives writes it: the members' pieces, turned."""
        gather = f"""%a = "dm.all_gather"(%x) {{dim = 1 : i64, {GROUP}}} : ({X}) -> tensor<4x8xf32>"""
        flat = f"""%e = tensor.expand_shape %x [[0, 1], [2]] output_shape [1, 4, 4] : {X} into tensor<1x4x4xf32>
          %g = "dm.all_gather"(%e) {{dim = 0 : i64, {GROUP}}} : (tensor<1x4x4xf32>) -> tensor<2x4x4xf32>
          %none = tensor.empty() : tensor<4x2x4xf32>
          %t = linalg.transpose ins(%g : tensor<2x4x4xf32>) outs(%none : tensor<4x2x4xf32>) permutation = [1, 0, 2]
          %a = tensor.collapse_shape %t [[0], [1, 2]] : tensor<4x2x4xf32> into tensor<4x8xf32>"""
        end = "\nreturn %a : tensor<4x8xf32>"
        one, other, wrong = _values(
            gather + end, flat + end, flat.replace("[1, 0, 2]", "[1, 0, 2]", 1).replace("%x", "%y") + end
        )
        assert one == other != wrong

    def test_start_and_wait_are_the_movement(self) -> None:
        start = f"""%h, %t = "dm.start"(%x) ({{
          ^bb0(%o: {X}):
            %s = "dm.all_reduce"(%o) {{{SUM}}} : ({X}) -> {X}
            "dm.yield"(%s) : ({X}) -> ()
          }}) {{queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>}}
          : ({X}) -> (!dm.handle<{X}>, !dm.token)
          %a = "dm.wait"(%h) : (!dm.handle<{X}>) -> {X}"""
        one, other = _values(start + END, f'%a = "dm.all_reduce"(%x) {{{SUM}}} : ({X}) -> {X}' + END)
        assert one == other

    def test_a_bucket_of_rows_is_its_members(self) -> None:
        """Two reduce-scatters in one: the bucket's rows are the ranks."""
        end = "\nreturn %a : tensor<2x4xf32>"
        rows = f"""%none = tensor.empty() : tensor<2x16xf32>
          %p = tensor.collapse_shape %x [[0, 1]] : {X} into tensor<16xf32>
          %m = tensor.expand_shape %p [[0, 1]] output_shape [2, 8] : tensor<16xf32> into tensor<2x8xf32>
          %q = tensor.collapse_shape %y [[0, 1]] : {X} into tensor<16xf32>
          %n = tensor.expand_shape %q [[0, 1]] output_shape [2, 8] : tensor<16xf32> into tensor<2x8xf32>
          %c = tensor.insert_slice %m into %none[0, 0] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<2x16xf32>
          %d = tensor.insert_slice %n into %c[0, 8] [2, 8] [1, 1] : tensor<2x8xf32> into tensor<2x16xf32>
          %s = "dm.reduce_scatter"(%d) {{dim = 0 : i64, {SUM}}} : (tensor<2x16xf32>) -> tensor<1x16xf32>
          %f = tensor.collapse_shape %s [[0, 1]] : tensor<1x16xf32> into tensor<16xf32>
          %u = tensor.extract_slice %f[0] [8] [1] : tensor<16xf32> to tensor<8xf32>
          %a = tensor.expand_shape %u [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>"""
        plain = f'%a = "dm.reduce_scatter"(%x) {{dim = 0 : i64, {SUM}}} : ({X}) -> tensor<2x4xf32>'
        one, other, wrong = _values(rows + end, plain + end, rows.replace("%f[0]", "%f[8]") + end)
        assert one == other != wrong

    def test_each_rank_has_its_own(self) -> None:
        ((first, second),) = _values(f"return %x : {X}")
        assert first != second


def test_bytes_that_nobody_has_written_may_be_any() -> None:
    """A bucket whose members lie apart: between them is what was there before."""
    values = Values()
    a, b, old = (values.made((name,), 4) for name in ("a", "b", "old"))
    wanted = values.row([(a, 0, 4), (values.unwritten, 0, 4), (b, 0, 4)])
    assert values.is_written_as(values.row([(a, 0, 4), (old, 0, 4), (b, 0, 4)]), wanted, 12)
    assert not values.is_written_as(values.row([(a, 0, 4), (old, 0, 4), (old, 0, 4)]), wanted, 12)
    assert not values.is_written_as(values.row([(b, 0, 4), (old, 0, 4), (a, 0, 4)]), wanted, 12)
    # Nor does it matter what a reduction makes of them.
    reduced = values.reduced([wanted, wanted], ("sum", "f32", "f32"), 12)
    assert values.segments(reduced, 12)[1] == (values.unwritten, 0, 4)


def test_a_stage_that_has_state_changes_it_as_others_do() -> None:
    whole = Step((("n", 8),), (), {"n": 0}, {}, {})
    first = Step(whole.arguments, (), whole.state, {}, {}, ranks=(0,))
    stale = Step(whole.arguments, (), {}, {}, {}, ranks=(1,))
    stages = (first, stale)
    with pytest.raises(ProofError, match=r"ranks \[1\] have 'n', and do not change it"):
        expected_of(Dataflow(whole, stages, stages, stages, {}), Mesh(pp=2), stages=("pp",))


def _node(*operands: int) -> Apply:
    return Apply("f", operands, (8,))


# Of two stages of `%b = f(%a); %n = f(%b)`, where `a` is on the first and `n` on the second: what the second runs, on
# which ranks, and what V11 says.
_WHOLE = Step((("a", 8), ("n", 8)), (_node(0), _node(2)), {"a": 0, "n": 3}, {}, {})
_FIRST = Step((("a", 8),), (_node(0), Sent(0, ("pp",), 1, 1)), {"a": 0}, {}, {}, ranks=(0,))
_SECOND = Step((("n", 8),), (Received(0), _node(1)), {"n": 2}, {}, {}, ranks=(1,))
_OTHERS = {
    "another value": (replace(_SECOND, state={"n": 1}), "'n' of rank 1 is computed differently"),
    "state that is nowhere": (replace(_SECOND, arguments=(), nodes=(Received(0),), state={}), "no stage has 'n'"),
    "a rank in two stages": (replace(_SECOND, ranks=(0, 1)), "not every rank is in one stage"),
    "a message that nobody sends": (replace(_SECOND, nodes=(Received(1), _node(1))), "wait for messages that none"),
}


def test_stages_compute_what_the_step_does() -> None:
    stages = (_FIRST, _SECOND)
    found = expected_of(Dataflow(_WHOLE, stages, stages, stages, {}), Mesh(pp=2), stages=("pp",))
    assert {rank: sorted(each) for rank, each in found.state.items()} == {0: ["a"], 1: ["n"]}


@pytest.mark.parametrize("name", _OTHERS)
def test_stages_that_do_not_are_refused(name: str) -> None:
    second, fact = _OTHERS[name]
    stages = (_FIRST, second)
    with pytest.raises(ProofError, match=re.escape(fact)):
        expected_of(Dataflow(_WHOLE, stages, stages, stages, {}), Mesh(pp=2), stages=("pp",))
