"""The code of kernels as data: what may lie on what, and results that are made where they belong."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from dmc.lowering.kernel_code import (
    Copy,
    Dispatch,
    Fill,
    Group,
    KernelCode,
    with_copies_in,
    without_copy_out,
)
from dmc.lowering.kernels.accesses import binding_accesses
from dmc.lowering.kernels.order import ordered_bindings
from dmc.lowering.stream.collectives import Combination
from dmc.program.code import Access, Binding, Place
from dmc.program.contract import is_safe_in_place

X, Y, OUT, SCRATCH = (
    Place("read", 0, 0, 64),
    Place("read", 1, 0, 64),
    Place("write", 0, 0, 64),
    Place("scratch", 0, 0, 64),
)


def dispatch(*bindings: tuple[Access, Place], ordered: frozenset[tuple[int, int]] = frozenset()) -> Dispatch:
    """A call of some executable."""
    return Dispatch("e", "e_0", (), (), tuple(Binding(access, place) for access, place in bindings), ordered)


ALL_AT_ONCE = dispatch(("ro", X), ("ro", Y), ("rw", OUT), ordered=frozenset({(0, 2)}))


@pytest.mark.parametrize(
    ("commands", "safe"),
    [
        ((ALL_AT_ONCE,), (True, False)),
        ((dispatch(("ro", X), ("wo", SCRATCH)), dispatch(("ro", SCRATCH), ("wo", OUT))), (True, True)),
        ((Copy(Y, OUT), dispatch(("ro", X), ("wo", SCRATCH))), (False, False)),
        ((Group((Fill("0 : i8", OUT), Copy(X, SCRATCH))),), (False, True)),
        ((Group((ALL_AT_ONCE, Copy(X, SCRATCH))),), (False, False)),
        ((Copy(X, SCRATCH), Fill("0 : i8", OUT)), (True, True)),
        ((Fill("0 : i8", OUT), ALL_AT_ONCE), (False, False)),
    ],
)
def test_in_place(commands: tuple[Dispatch | Fill | Copy | Group, ...], safe: tuple[bool, bool]) -> None:
    phases = KernelCode("k", commands, 64).phases()
    assert tuple(is_safe_in_place(phases, read, 0) for read in (0, 1)) == safe


def test_a_result_is_made_where_it_belongs() -> None:
    first, second = Place("scratch", 0, 0, 20), Place("scratch", 0, 20, 20)
    out = Copy(Place("scratch", 0, 0, 40), Place("write", 0, 0, 40))
    code = KernelCode("join", (Group((Copy(X, first), Copy(Y, second))), Group((out, Copy(first, OUT)))), 64)
    made = without_copy_out(KernelCode("join", (*code.commands[:1], out), 64))
    places = (Place("write", 0, 0, 20), Place("write", 0, 20, 20))
    assert made == KernelCode("join", (Group((Copy(X, places[0]), Copy(Y, places[1]))),), 0)
    # Something else writes the result as well.
    assert without_copy_out(code) == code


def test_scratch_that_holds_more_stays() -> None:
    code = KernelCode("k", (dispatch(("ro", X), ("wo", Place("scratch", 0, 0, 320))), Copy(SCRATCH, OUT)), 320)
    assert without_copy_out(code) == code


def test_scratch_that_is_used_again_stays() -> None:
    other = Place("write", 1, 0, 64)
    once, again = dispatch(("ro", X), ("wo", SCRATCH)), dispatch(("ro", Y), ("wo", SCRATCH))
    code = KernelCode("k", (once, Copy(SCRATCH, OUT), again, dispatch(("ro", SCRATCH), ("wo", other))), 64)
    assert without_copy_out(code) == code
    assert without_copy_out(KernelCode("k", (again, once, Copy(SCRATCH, OUT)), 64)).scratch == 0


def test_an_operand_that_would_be_written_is_copied() -> None:
    commands = (dispatch(("ro", X), ("wo", Y)), dispatch(("ro", X), ("wo", OUT)), Copy(Y, OUT))
    made, copied = with_copies_in(KernelCode("k", commands, 512)), Place("scratch", 0, 512, 64)
    assert made.commands == (
        Copy(Y, copied),
        dispatch(("ro", X), ("wo", copied)),
        dispatch(("ro", X), ("wo", OUT)),
        Copy(copied, OUT),
    )
    assert made.scratch == 512 + 256
    assert with_copies_in(made) == made


def test_what_is_updated_and_copied_out_is_updated_where_it_belongs() -> None:
    code = KernelCode("k", (dispatch(("ro", X), ("wo", Y)), Copy(Y, OUT)), 0)
    made = without_copy_out(with_copies_in(code))
    assert made == KernelCode("k", (Copy(Y, OUT), dispatch(("ro", X), ("wo", OUT))), 0)


ELEMENTWISE = 'indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]'


def executable(body: str) -> str:
    """An executable of the buffers x, y and z, of which x is loaded."""
    kind, tensor = "!iree_tensor_ext.dispatch.tensor", "tensor<8xf32>"
    whole = "offsets = [0], sizes = [8], strides = [1]"
    lines = body.replace("GENERIC", f"linalg.generic {{{ELEMENTWISE}}}").replace("KIND", tensor)
    lines = lines.replace("STORE", "iree_tensor_ext.dispatch.tensor.store").replace(
        "WHOLE", f"{whole} : {tensor} -> {kind}<writeonly:{tensor}>"
    )
    return f"""
    stream.executable private @e {{
      stream.executable.export public @e workgroups() -> (index, index, index) {{
        %n = arith.constant 1 : index
        stream.return %n, %n, %n : index, index, index
      }}
      builtin.module {{
        func.func @e(%a: !stream.binding, %b: !stream.binding, %c: !stream.binding) {{
          %c0 = arith.constant 0 : index
          %bx = stream.binding.subspan %a[%c0] : !stream.binding -> {kind}<readonly:{tensor}>
          %by = stream.binding.subspan %b[%c0] : !stream.binding -> {kind}<writeonly:{tensor}>
          %bz = stream.binding.subspan %c[%c0] : !stream.binding -> {kind}<writeonly:{tensor}>
          %x = iree_tensor_ext.dispatch.tensor.load %bx, {whole} : {kind}<readonly:{tensor}> -> {tensor}
          %e = tensor.empty() : {tensor}
          {lines}
          return
        }}
      }}
    }}"""


ONE_AFTER_THE_OTHER = """
  %y = GENERIC ins(%x : KIND) outs(%e : KIND) {
  ^bb0(%i: f32, %o: f32): %s = math.exp %i : f32 linalg.yield %s : f32 } -> KIND
  %z = GENERIC ins(%y : KIND) outs(%e : KIND) {
  ^bb0(%i: f32, %o: f32): %s = math.sin %i : f32 linalg.yield %s : f32 } -> KIND
  STORE %y, %by, WHOLE
  STORE %z, %bz, WHOLE"""
COMPUTED_TWICE = """
  %y = GENERIC ins(%x : KIND) outs(%e : KIND) {
  ^bb0(%i: f32, %o: f32): %s = math.exp %i : f32 linalg.yield %s : f32 } -> KIND
  %z = GENERIC ins(%x : KIND) outs(%e : KIND) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    %t = math.sin %s : f32
    linalg.yield %t : f32 } -> KIND
  STORE %y, %by, WHOLE
  STORE %z, %bz, WHOLE"""


TWO_RESULTS = """
  %r:2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%x : KIND) outs(%e, %e : KIND, KIND) {
  ^bb0(%i: f32, %o: f32, %p: f32):
    %s = math.exp %i : f32
    %t = math.sin %s : f32
    linalg.yield %t, SECOND : f32, f32 } -> (KIND, KIND)
  STORE %r#0, %by, WHOLE
  STORE %r#1, %bz, WHOLE"""
COMPUTED, PASSED_ON = TWO_RESULTS.replace("SECOND", "%s"), TWO_RESULTS.replace("SECOND", "%i")
NONE: set[tuple[int, int]] = set()


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        (ONE_AFTER_THE_OTHER, {(0, 1), (0, 2)}),
        (COMPUTED_TWICE, NONE),
        (COMPUTED, {(0, 1), (0, 2)}),
        (PASSED_ON, NONE),
    ],
)
def test_what_a_dispatch_has_read_when_it_writes(body: str, pairs: set[tuple[int, int]]) -> None:
    with ir.Context():
        module = ir.Module.parse(executable(body))
        (op,) = module.body.operations
        assert ordered_bindings(op.operation) == pairs


@pytest.mark.parametrize(
    ("body", "accesses"),
    [("", ("r", "", "")), (ONE_AFTER_THE_OTHER, ("r", "w", "w")), ("STORE %x, %by, WHOLE", ("r", "w", ""))],
)
def test_what_a_dispatch_does_with_its_buffers(body: str, accesses: tuple[str, ...]) -> None:
    with ir.Context():
        module = ir.Module.parse(executable(body))
        (op,) = module.body.operations
        assert binding_accesses(op.operation) == accesses


def test_what_combines_buffers_may_write_over_any_of_them() -> None:
    with ir.Context():
        combination = Combination("mean", "bf16", "f32", 8, 3, 3)
        module = ir.Module.parse(combination.executable())
        (op,) = module.body.operations
        assert binding_accesses(op.operation) == ("r", "r", "r", "w")
        assert ordered_bindings(op.operation) == {(0, 3), (1, 3), (2, 3)}
