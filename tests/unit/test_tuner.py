"""Candidates are timed if they are right, on a device that computes in numpy; and the compiler takes the fastest."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dmc import dialect
from dmc._mlir import func, ir
from dmc.analysis.requests.settings import write_settings
from dmc.errors import ArtifactError, DmcError
from dmc.lowering.candidates import candidates_of
from dmc.lowering.implementations import code_for
from dmc.lowering.native import kernel_key, native_kernels, ways_of
from dmc.program import Job, Kernel, Operand
from dmc.program.code import Binding, DeviceCode, Dispatch, Matrix, Place, Product
from dmc.program.tuning import HEURISTIC, Candidate, Candidates, Choice, Table, Tunable, algorithm_of, label_of
from dmc.runtime.tuner import compared, difference, drawn, tune
from dmc.target import CUDA

COUNT = 1000
OPERAND = Operand("f32", (COUNT,))
BINDINGS = (Binding("ro", Place("read", 0, 0, 4 * COUNT)), Binding("wo", Place("write", 0, 0, 4 * COUNT)))
ALGORITHM = (66, 20, 1, 0, 0, 0, 36, 0, 5)


class Device:
    """Doubles numbers. times: of candidates, by their entry, in microseconds."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times, self.memory, self.issued = times, np.zeros(0, np.uint8), list[str]()
        self.pointers: list[tuple[int, ...]] = []

    def prepare(self, lanes: int, code: DeviceCode) -> None:
        self.kernels = code.kernels

    def allocate(self, length: int) -> Any:
        self.memory = np.zeros(length, np.uint8)
        return SimpleNamespace(ptr=0)

    def upload(self, target: int, data: bytes) -> None:
        self.memory[target : target + len(data)] = np.frombuffer(data, np.uint8)

    def download(self, source: int, length: int) -> np.ndarray:
        return self.memory[source : source + length].copy()

    def fill(self, lane: int, target: int, length: int, pattern: bytes) -> None:
        self.memory[target : target + length] = pattern[0]

    def copy(self, lane: int, target: int, source: int, length: int) -> None:
        self.memory[target : target + length] = self.memory[source : source + length]

    def drain(self) -> None: ...

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        return work

    def seconds(self, launch: Callable[[], None]) -> float:
        self.issued = []
        launch()
        return sum(1e-6 * self.times[entry] for entry in self.issued)

    def algorithms(self, product: Product, count: int) -> list[tuple[int, ...]]:
        return [ALGORITHM]

    def before(self, lane: int, place: int) -> None: ...

    def launch(self, lane: int, dispatch: Dispatch, pointers: list[int]) -> None:
        self.issued.append(dispatch.entry)
        if dispatch.entry == "refused":
            raise DmcError("device", "does not launch it")
        self.pointers.append(tuple(pointers))
        source, target = (self.memory[each : each + 4 * COUNT].view(np.float32) for each in pointers)
        count = COUNT - 1 if dispatch.entry == "short" else COUNT
        target[:count] = (3 if dispatch.entry == "wrong" else 2) * source[:count]

    def product(self, lane: int, product: Product, pointers: list[int]) -> None:
        self.issued.append(str(product.algorithm))
        self.memory[pointers[2] : pointers[2] + 4 * COUNT].view(np.float32)[:] = 1


def tunable_of(*entries: str) -> Tunable:
    steps = ((Dispatch(each, (1, 1, 1), (1, 1, 1), 0, BINDINGS),) for each in entries)
    made = tuple(Candidate(entry, step, 0) for entry, step in zip(entries, steps, strict=True))
    return Tunable("key", "doubled", (OPERAND,), (OPERAND,), made)


def _tuned(times: dict[str, float], tunable: Tunable) -> tuple[Choice, list[str]]:
    ((key, choice, refused),) = tune(Device(times), Candidates((tunable,), {}))
    assert key == tunable.key
    return choice, refused


def test_the_fastest_that_is_right_is_chosen() -> None:
    times = {"first": 9.0, "fast": 5.0, "wrong": 1.0, "short": 1.0, "refused": 1.0}
    choice, refused = _tuned(times, tunable_of(*times))
    assert (choice.label, choice.us) == ("fast", pytest.approx({"first": 9.0, "fast": 5.0}))
    assert choice.types == "1000xf32 -> 1000xf32"
    assert [each.partition(":")[0] for each in refused] == ["wrong", "short", "refused"]
    assert "differs by 5.0e-01" in refused[0] and "not finite" in refused[1] and "does not launch" in refused[2]


def test_candidates_are_compared_by_one_launch_each() -> None:
    device = Device({})
    found = list(compared(device, Candidates((tunable_of("first", "other", "wrong"),), {})))
    assert [each[:2] for each in found] == [("doubled", label) for label in ("first", "other", "wrong")]
    assert [fact for _, _, fact in found] == [None, None, "result 0 differs by 5.0e-01"]
    assert device.issued == ["first", "other", "wrong"]


def test_each_launch_takes_the_next_of_several_sets() -> None:
    device = Device({"first": 9.0})
    next(tune(device, Candidates((tunable_of("first"),), {})))
    sets = [tuple(device.memory[each : each + 4 * COUNT].tobytes() for each in pair) for pair in set(device.pointers)]
    assert len(sets) == 8 and device.pointers[-2] == device.pointers[-10]
    assert len({operand for operand, _ in sets}) == 8, "data that are in the cache, or alike"


def test_large_operands_repeat_their_data() -> None:
    device, period, rest = Device({"first": 9.0}), 1_048_573, 100
    tunable = replace(tunable_of("first"), reads=(Operand("i1", (period + rest,)),))
    next(tune(device, Candidates((tunable,), {})))
    data, behind = np.split(device.memory[: period + rest + 1], [period + rest])
    assert np.array_equal(data[period:], data[:rest]) and data[:rest].any()
    assert not behind.any()


def test_what_is_hardly_faster_is_not_chosen() -> None:
    assert _tuned({"first": 9.0, "other": 8.9}, tunable_of("first", "other"))[0].label == "first"


def test_the_library_is_asked_for_its_algorithms() -> None:
    matrix = Matrix(BINDINGS[0].place, "f32", 1, 10, 100)
    result = replace(matrix, place=BINDINGS[1].place)
    product = Product(matrix, matrix, result, Place("scratch", 0, 0, 64))
    tunable = replace(tunable_of("first"), candidates=(Candidate(HEURISTIC, (product,), 64),))
    choice, _ = _tuned({"()": 9.0, str(ALGORITHM): 5.0}, tunable)
    assert choice.label == label_of(ALGORITHM) and choice.label.startswith("id=66 tile_id=20 splitk_num=1")
    assert algorithm_of(choice.label) == ALGORITHM and algorithm_of(label_of(())) == ()


@pytest.mark.parametrize(
    "label", ["", "id=x", "block=1024 warps=4 stages=2", label_of(ALGORITHM)[1:], label_of(ALGORITHM[:3])]
)
def test_a_damaged_label_is_no_algorithm(label: str) -> None:
    with pytest.raises(ArtifactError, match="not an algorithm of cuBLASLt"):
        algorithm_of(label)


def test_data_are_fresh_and_results_compared_by_their_type() -> None:
    assert not np.array_equal(drawn(OPERAND, 0), drawn(OPERAND, 1))
    assert set(drawn(Operand("i1", (50,)), 0)) == {0, 1}
    assert 8 < drawn(Operand("i64", (50,)), 0, below=10).max() < 10
    ones = np.ones(4, np.float32)
    assert difference(ones, ones + 1e-4, "f32") is None and difference(ones, ones + 0.1, "f32") is not None
    assert difference(ones.astype(np.int64), np.zeros(4, np.int64), "i64") == "differs"


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
