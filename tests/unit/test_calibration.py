"""What `dmc calibrate` measures on a device of known figures is these figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dmc import calibration
from dmc.calibration import fits, gpu, links
from dmc.calibration.cpu import Equation, solution
from dmc.calibration.graphs import Graphs
from dmc.calibration.steps import with_launches
from dmc.cli.main import main
from dmc.errors import DmcError
from dmc.machine import (
    Factor,
    Machine,
    collective_ns,
    launch_ns,
    machine,
    machine_of,
    move_ns,
    with_tuned,
    write_machine,
)
from dmc.program import COPIED, Collective, Kernel, Operand
from dmc.program.code import Dispatch, Product
from dmc.program.kernel import types_of
from dmc.program.tuning import HEURISTIC, Choice, Table
from dmc.runtime.world.launch import World

# Of the device: bytes and operations per nanosecond, and nanoseconds.
COPIES, PINNED, RATE, NODE, FIRST, START = 1500.0, 50.0, 700_000.0, 1700.0, 30_000.0, 9000.0
SENT = {"all_reduce": 320.0, "all_gather": 300.0, "reduce_scatter": 290.0, "permute": 140.0}
# How much longer products take beside what NCCL adds, and beside what copy engines move.
SLOWER, COPIED_SLOWER = 1.5, 1.1


class Device:
    """Takes time on two lanes by these figures; products are slower beside movements."""

    name = "NVIDIA H200"

    def __init__(self) -> None:
        self.lanes, self.slower = [0.0, 0.0], 1.0

    def prepare(self, *_: Any) -> None: ...

    def upload(self, *_: Any) -> None: ...

    def drain(self) -> None: ...

    def allocate(self, length: int) -> Any:
        return SimpleNamespace(ptr=1 << 40)

    def allocate_pinned(self, length: int) -> Any:
        return _Pinned(length)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        return work

    def seconds(self, launch: Callable[[], None]) -> float:
        self.lanes = [0.0, 0.0]
        launch()
        compute, moving = self.lanes
        return 1e-9 * max(compute + min(moving, compute) * (1 - 1 / self.slower) if compute else 0.0, moving)

    def before(self, lane: int, place: int) -> None: ...

    def record(self, lane: int) -> Any: ...

    def wait(self, lane: int, event: Any) -> None: ...

    def launch(self, lane: int, dispatch: Dispatch, pointers: list[int]) -> None:
        # The first node of a graph takes longer.
        self.lanes[lane] += NODE if self.lanes[lane] else FIRST

    def product(self, lane: int, product: Product, pointers: list[int]) -> None:
        flops = 2 * product.left.rows * product.left.columns * product.right.columns
        speed = {"bf16": 1.0, "f16": 1.0, "f32": 0.1}[product.left.dtype]
        large = product.left.rows == product.left.columns == product.right.columns
        self.lanes[lane] += flops / RATE / speed if large else NODE + flops / RATE / 0.8

    def copy(self, lane: int, target: int, source: int, length: int) -> None:
        within = min(target, source) >= 1 << 40
        self.lanes[lane] += START / 3 + length / (COPIES if within else PINNED)

    def collective(self, lane: int, command: Collective, source: int, target: int) -> None:
        sides = [side.length for side in (command.source, command.target) if side is not None]
        self.slower = COPIED_SLOWER if command.kind in COPIED else SLOWER
        factor = {"all_reduce": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5, "all_to_all": 0.5}.get(command.kind, 1.0)
        self.lanes[lane] += START + factor * max(sides) / SENT.get(command.kind, 280.0)


class _Pinned(bytearray):
    ptr = 0


@pytest.fixture(scope="module")
def found() -> Machine:
    """Two of the device, as measured."""
    base, graphs = machine("h200x2"), Graphs(Device(), gpu.LANES, gpu.code())  # pyright: ignore[reportArgumentType]
    assert base.link is not None
    device = gpu.measured(base, graphs, Device.name)
    return msgspec.structs.replace(base, name="here", device=device, link=links.measured(base.link, graphs, 2))


def test_rates_bandwidth_and_nodes_are_recovered(found: Machine) -> None:
    device = found.device
    assert device.launch.ns == pytest.approx(NODE)
    assert {dtype: device.matrix.rates[dtype] for dtype in ("bf16", "f32")} == pytest.approx(
        {"bf16": 1e9 * RATE, "f32": 1e8 * RATE}
    )
    assert device.memories["device"].bandwidth == pytest.approx(2e9 * COPIES)
    for path, rate in (("device>device", COPIES), ("pinned_host>device", PINNED), ("device>pinned_host", PINNED)):
        assert move_ns(found, *path.split(">"), 1 << 24) == pytest.approx(START / 3 + (1 << 24) / rate)  # pyright: ignore[reportCallIssue]


def test_a_product_of_the_library_takes_what_its_family_attains(found: Machine) -> None:
    left, right = Operand("bf16", (4096, 512)), Operand("bf16", (512, 4096))
    flops = 2 * 4096 * 4096 * 512
    kernel = Kernel(
        "matmul_3", (left, right), (Operand("bf16", (4096, 4096)),), flops, 1 << 20, 0, "cublaslt", "matmul"
    )
    assert launch_ns(found, kernel) == pytest.approx(NODE + flops / RATE / 0.8, rel=0.01)


def test_movements_between_ranks_are_recovered(found: Machine) -> None:
    for size in (1 << 16, 1 << 20, 3 << 20, 1 << 28):
        assert collective_ns(found, "all_reduce", (0, 1), size) == pytest.approx(START + size / 320.0, rel=1e-3)
        assert collective_ns(found, "all_gather", (0, 1), size) == pytest.approx(START + size / 600.0, rel=1e-3)
        # A message takes what a permutation takes.
        assert collective_ns(found, "recv", (0, 1), size) == pytest.approx(START + size / 140.0, rel=0.1)
    assert found.link is not None
    assert found.link.compute_slowdown == pytest.approx(SLOWER, rel=0.02)
    assert found.link.copy_slowdown == pytest.approx(COPIED_SLOWER, rel=0.02)
    assert found.link.bandwidth["all_reduce"] == pytest.approx(1e9 * SENT["all_reduce"])


def test_all_ranks_issue_as_many_movements() -> None:
    base, device = machine("h200x2").link, Device()
    assert base is not None
    issued: list[float] = []
    graphs = Graphs(device, gpu.LANES, gpu.code())  # pyright: ignore[reportArgumentType]
    take = device.seconds

    def seconds(launch: Callable[[], None]) -> float:
        took = take(launch)
        issued.append(device.lanes[1])
        return took

    device.seconds = seconds
    # Another rank, with other times, has told 3.
    links.measured(base, graphs, 2, lambda own: 3)
    # At the end, beside products: what adds, then what copy engines move.
    times = [3 * (START + (128 << 20) / SENT[kind]) for kind in ("all_reduce", "permute")]
    assert list(dict.fromkeys(each for each in issued if each in times)) == times


def test_what_kernels_lose_beside_copies_is_measured_where_copy_engines_move() -> None:
    base = machine("h200x2").link
    assert base is not None
    graphs = Graphs(Device(), gpu.LANES, gpu.code())  # pyright: ignore[reportArgumentType]
    for known in (None, 3.0):
        before = msgspec.structs.replace(base, copy_slowdown=known)
        assert links.measured(before, graphs, 2, are_copied=False).copy_slowdown == known
        copied = links.measured(before, graphs, 2, are_copied=True).copy_slowdown
        assert copied == pytest.approx(COPIED_SLOWER, rel=0.02)


def test_a_family_is_predicted_to_take_what_it_took() -> None:
    base = machine("h200")
    kernels = [
        Kernel("norm_0", (), (Operand("f32", (1,)),), 0, size, 0, "triton", "reduction") for size in (64, 1 << 26)
    ]
    samples = [(kernels[0], 1500.0), (kernels[1], 50_000.0), (kernels[1], 52_000.0)]
    family = fits.families(base, samples, "test")["triton norm"]
    assert family.ns == 1500
    seen = msgspec.structs.replace(base, device=msgspec.structs.replace(base.device, families={"triton norm": family}))
    assert sum(launch_ns(seen, kernel) for kernel, _ in samples) == pytest.approx(
        sum(ns for _, ns in samples), rel=1e-3
    )


def test_shares_of_a_processor_are_recovered() -> None:
    parts = (
        {"matmul": 800.0, "other": 100.0, "launch": 10.0},
        {"matmul": 300.0, "launch": 2.0},
        {"other": 50.0, "launch": 5.0},
    )
    equations = [
        Equation(each, each.get("matmul", 0) / 0.5 + each.get("other", 0) / 0.25 + 7 * each["launch"]) for each in parts
    ]
    known = {"matmul": 0.1, "other": 0.1, "reduction": 0.9}
    assert solution(equations, known) == ({"matmul": 0.5, "other": 0.25, "reduction": 0.9}, 7)


def test_fits_stay_possible() -> None:
    assert fits.line([1, 2, 4], [12, 14, 18]) == fits.Line(pytest.approx(10), pytest.approx(0.5))  # pyright: ignore[reportArgumentType]
    assert fits.line([1, 2], [10, 10]).start == pytest.approx(10)
    assert fits.slowdown(100, 100, 10) == 1
    assert fits.slowdown(100, 1000, 10) == pytest.approx(10)


def test_a_machine_file_is_a_machine(found: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.json"
    write_machine(found, path)
    assert machine(str(path)) == found
    path.write_text("{}")
    with pytest.raises(DmcError, match="cannot be read"):
        machine(str(path))
    assert machine_of("NVIDIA H200 NVL", 2) == "h200x2"


def test_the_command_writes_what_was_measured(
    found: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibration, "calibrate_gpu", lambda world, paths: found)
    path, table = tmp_path / "here.json", tmp_path / "table.json"
    assert main(["calibrate", "-o", str(path)]) == 0
    assert machine(str(path)) == found
    assert "here.json" in capsys.readouterr().out
    # What was tuned here goes before what its family attains.
    made = Operand("bf16", (8, 8))
    kernel = Kernel("matmul_3", (made, made), (made,), 1024, 384, 0, "cublaslt", "matmul")
    choice = Choice("matmul_0", types_of(kernel.reads, kernel.writes), HEURISTIC, {HEURISTIC: 2.5})
    Table({"key": choice}).write(table)
    assert main(["calibrate", "-o", str(path), "--tuning", str(table)]) == 0
    assert launch_ns(machine(str(path)), kernel) == pytest.approx(2500 * found.device.sustained.factor)
    triton = msgspec.structs.replace(kernel, implementation="triton")
    assert launch_ns(machine(str(path)), triton) == launch_ns(found, triton)


def test_several_hosts_are_refused() -> None:
    with pytest.raises(DmcError, match="links between hosts are not measured"):
        calibration.calibrate_gpu(World(0, 4, 0, 2, "torchrun"))


def test_what_was_launched_is_known_and_tells_its_family() -> None:
    base, made = machine("h200"), (Operand("f32", (1024, 1024)),)
    kernel = Kernel("norm_0", made, made, 0, 8 << 20, 0, "triton", "reduction")
    other = msgspec.structs.replace(kernel, name="norm_1", writes=(Operand("bf16", (1024, 1024)),))
    device = with_launches(base, [(kernel, 4000.0), (kernel, 6000.0)], "test")
    seen = msgspec.structs.replace(base, device=device)
    assert launch_ns(seen, kernel) == 5000
    assert launch_ns(seen, other) == pytest.approx(5000, rel=0.01)
    assert launch_ns(base, other) != pytest.approx(5000, rel=0.01)


def test_tuned_times_are_prolonged_as_those_which_were_launched() -> None:
    base, made = machine("h200"), (Operand("f32", (1024, 1024)),)
    norm, add = (Kernel(name, made, made, 0, 8 << 20, 0, "triton", "reduction") for name in ("norm_0", "add_0"))
    device = with_launches(base, [(norm, 5000.0), (add, 1000.0)], "test")
    types = types_of(made, made)
    tuned = {"norm_0": 3.8, "add_0": 1.0, "sum_0": 2.0}
    found = fits.also_tuned(device, {name: Choice(name, types, "x", {"x": us}) for name, us in tuned.items()})
    assert found.sustained.factor == 1.25
    # What was launched stays as it was measured.
    assert [found.kernels[f"triton {name} {types}"].ns for name in ("norm", "add", "sum")] == [5000, 1000, 2500]


def test_tuned_times_are_those_of_bursts() -> None:
    device = msgspec.structs.replace(machine("h200").device, sustained=Factor(1.1, "test"))
    types = "8xf32 -> 8xf32"
    table = {"a": Choice("norm_0", types, "x", {"x": 3.0, "y": 9.0}), "b": Choice("norm_9", types, "y", {"y": 2.0})}
    assert with_tuned(device, table).kernels["triton norm 8xf32 -> 8xf32"].ns == pytest.approx(3300)
