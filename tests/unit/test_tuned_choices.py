"""The compiler takes the choices of a table, whatever kernels are called; and what a table is asked for."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import func, ir
from dmc.analysis.requests.settings import write_settings
from dmc.lowering.cuda.candidates import candidates_of
from dmc.lowering.cuda.native import kernel_key, native_kernels, ways_of
from dmc.lowering.implementations import code_for
from dmc.program import Job, Kernel
from dmc.program.code import Product
from dmc.program.tuning import HEURISTIC, Candidates, Choice, Table, label_of
from dmc.target import CUDA
from tests.unit.test_tuner import ALGORITHM

MODULE = """
#same = affine_map<(i, j) -> (i, j)>
func.func private @NAME_0(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {
  %empty = tensor.empty() : tensor<64x256xf32>
  %z = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<64x256xf32>) outs(%empty : tensor<64x256xf32>) {
    ^bb0(%a: f32, %o: f32):
      %b = arith.negf %a : f32
      linalg.yield %b : f32
  } -> tensor<64x256xf32>
  return %z : tensor<64x256xf32>
}
func.func private @NAME_1(%x: tensor<64x32xbf16>, %w: tensor<32x16xbf16>) -> tensor<64x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<64x16xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x16xf32>) -> tensor<64x16xf32>
  %p = linalg.matmul ins(%x, %w : tensor<64x32xbf16>, tensor<32x16xbf16>) outs(%fill : tensor<64x16xf32>)
      -> tensor<64x16xf32>
  return %p : tensor<64x16xf32>
}
"""


@pytest.fixture
def context() -> Generator[None]:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        yield


def _module(name: str) -> tuple[ir.Module, list[str], list[str]]:
    """A module, the names of its functions, and their keys."""
    module = ir.Module.parse(MODULE.replace("NAME", name))
    elements, product = [each for each in module.body.operations if isinstance(each, func.FuncOp)]
    keys = [kernel_key(elements, ways_of(elements)), kernel_key(product)]
    assert keys[0] not in (kernel_key(elements), kernel_key(elements, ways_of(elements)[1:]))
    return module, [f"{name}_0", f"{name}_1"], keys


def test_choices_of_a_table_are_taken_whatever_kernels_are_called(context: None, tmp_path: Path) -> None:
    module, names, keys = _module("made")
    kernels = {name: Kernel(name, (), (), 1, 1 << 20) for name in names}
    found = candidates_of(module, Job({"rank": 1}, (), kernels, ()))
    assert [each.key for each in found.tunables] == keys
    assert Candidates.from_bytes(found.to_bytes(), "here") == found
    labels = [each.label for each in found.tunables[0].candidates]
    assert len(labels) > 1 and [each.label for each in found.tunables[1].candidates] == [HEURISTIC]
    choices = (Choice(names[0], "", labels[-1], {labels[0]: 2.0, labels[-1]: 1.0}),)
    choices += (Choice(names[1], "", label_of(ALGORITHM), {HEURISTIC: 2.0, label_of(ALGORITHM): 1.5}),)
    path = tmp_path / "tuning.json"
    Table(dict(zip(keys, choices, strict=True)), "a GPU").write(path)

    other, (elements, product), _ = _module("other")
    plain, _ = native_kernels(other, (elements, product))
    write_settings(other, "cuda", "h200", 0, Table.read(path))
    # A form does not depend on where files are.
    assert str(tmp_path) not in str(other)
    tuned = code_for(other, (elements, product), CUDA)
    taken = [each.native[elements].taken for each in (plain, tuned)]
    assert [each and each.label for each in taken] == [labels[0], labels[-1]]
    assert tuned.native[elements].reason == f"{labels[-1]}: 1.0 us measured, others up to 2.0"
    assert plain.native[elements].reason == "the most promising; not measured"
    (step,) = tuned.native[product].steps
    assert isinstance(step, Product) and step.algorithm == ALGORITHM


def test_the_table_of_the_machine_goes_before_those_of_other_devices(
    context: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, (elements, _), (key, _) = _module("made")
    given: dict[str, Table] = {}
    labels = [way.label for way in ways_of(module.body.operations[0])]
    for name, device, label in (("h100", "NVIDIA H100 80GB HBM3", labels[1]), ("h200", "NVIDIA H200", labels[0])):
        choice = Choice(elements, "", label, dict.fromkeys(labels, 1.0))
        given[name] = Table({key: choice}, device)
    monkeypatch.setattr("dmc.lowering.implementations.tables", lambda: given)

    def taken(machine: str) -> str:
        write_settings(module, "cuda", machine, 0)
        found = code_for(module, [elements], CUDA).native[elements].taken
        assert found is not None
        return found.label

    assert [taken(machine) for machine in ("h100", "h200", "h200x2")] == [labels[1], labels[0], labels[0]]


PART = """
func.func private @attention_3(%q: Q, %seed: tensor<i64>, %b: tensor<2xi64>, %h: tensor<2xi64>) -> (Q, LEVEL) {
  %y, %level = "dm.composite"(%q, %q, %q, %seed, %seed, %b, %h) {kind = "attention", decomposition = @meaning_part0,
      parameters = {p = 0.1 : f64, scale = 0.25 : f64, causal = true, whole_0 = 4 : i64, whole_1 = 2 : i64}}
      : (Q, Q, Q, tensor<i64>, tensor<i64>, tensor<2xi64>, tensor<2xi64>) -> (Q, LEVEL)
  return %y, %level : Q, LEVEL
}
func.func private @meaning_part0(Q, Q, Q, tensor<i64>, tensor<i64>, tensor<2xi64>, tensor<2xi64>) -> (Q, LEVEL)
""".replace("Q", "tensor<2x2x8x16xf32>").replace("LEVEL", "tensor<2x2x8x1xf32>")


def test_a_part_of_attention_takes_what_was_measured_for_the_whole_of_its_types(context: None) -> None:
    module = ir.Module.parse(PART)
    (function, _) = module.body.operations
    labels = [way.label for way in ways_of(function)]

    def taken(*kernels: tuple[str, str, str]) -> str:
        choices = (Choice(kernel, types, label, dict.fromkeys(labels, 1.0)) for kernel, types, label in kernels)
        table = Table({str(i): choice for i, choice in enumerate(choices)})
        found = native_kernels(module, ["attention_3"], table)[0].native["attention_3"].taken
        assert found is not None
        return found.label

    types = "2x2x8x16xf32, i64 -> 2x2x8x16xf32, 2x2x8x1xf32"
    assert taken(("attention_0", types, labels[1])) == labels[1]
    # Another kind, other types, and measurements that disagree.
    for others in (
        [("attention_backward_0", types, labels[1])],
        [("attention_0", f"4x{types[2:]}", labels[1])],
        [("attention_0", types, labels[1]), ("attention_1", types, labels[0])],
    ):
        assert taken(*others) == labels[0]


def test_equal_kernels_are_timed_once_and_short_ones_never(context: None) -> None:
    alias, bodies = MODULE.split("\n", 2)[1:]
    module = ir.Module.parse("\n".join([alias, *(bodies.replace("NAME", name) for name in ("one", "same"))]))
    long = {name: Kernel(name, (), (), 1, 1 << 20) for name in ("one_0", "one_1", "same_0", "same_1")}
    for kernels, names in ((long, ["one_0", "one_1"]), ({"one_1": replace(long["one_1"], traffic=(1 << 20) - 1)}, [])):
        found = candidates_of(module, Job({"rank": 1}, (), kernels, ()))
        assert [each.kernel for each in found.tunables] == names
    found = candidates_of(module, Job({"rank": 1}, (), long, ()))
    known = {each.key for each in found.tunables if each.kernel == "one_0"}
    assert [each.kernel for each in candidates_of(module, Job({"rank": 1}, (), long, ()), known).tunables] == ["one_1"]
