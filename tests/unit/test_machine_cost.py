"""Costs follow the figures of the machine: each number here is worked out by hand from a description."""

from __future__ import annotations

import msgspec
import pytest

from dmc.errors import DmcError
from dmc.machine import Machine, Measured, collective_ns, kernel_ns, launch_ns, machine, move_ns
from dmc.program import Kernel, Operand

H200 = machine("h200")
BF16 = Operand("bf16", (8192, 8192))
MATMUL = Kernel("m", (BF16, BF16), (BF16,), 2 * 8192**3, 3 * 8192 * 8192 * 2, kind="matmul")


def test_a_kernel_is_bound_by_its_slower_side() -> None:
    assert kernel_ns(H200, "matmul", 989_000_000_000, 0, "bf16") == pytest.approx(1e6 / 0.64 + 2000)
    assert kernel_ns(H200, "elementwise", 0, 4_800_000_000, "f32") == pytest.approx(1e6 / 0.9 + 2000)
    assert kernel_ns(H200, "elementwise", 1, 4_800_000_000, "f32") == kernel_ns(
        H200, "elementwise", 0, 4_800_000_000, "f32"
    )


def test_an_empty_kernel_costs_a_launch() -> None:
    assert kernel_ns(H200, "other", 0, 0, "f32") == 2000


def test_a_type_without_matrix_units_multiplies_at_its_vector_rate() -> None:
    assert kernel_ns(H200, "matmul", 67_000_000_000, 0, "f32") == pytest.approx(1e6 / 0.64 + 2000)


@pytest.mark.parametrize("dtype", ["i1", "i64", "si32", "ui8", "index"])
def test_integers_of_all_widths_compute_alike(dtype: str) -> None:
    assert kernel_ns(H200, "other", 33_000_000_000, 0, dtype) == pytest.approx(1e6 / 0.5 + 2000)


def test_a_measured_time_goes_before_the_model() -> None:
    device = msgspec.structs.replace(H200.device, kernels={MATMUL.key: Measured(1.5e6, "here")})
    measured = msgspec.structs.replace(H200, device=device)
    assert launch_ns(measured, MATMUL) == 1.5e6
    renamed = msgspec.structs.replace(MATMUL, name="m_7")
    assert launch_ns(measured, renamed) == 1.5e6
    assert launch_ns(H200, MATMUL) == kernel_ns(H200, "matmul", MATMUL.flops, MATMUL.traffic, "bf16")


def test_the_large_matmul_is_near_what_was_measured() -> None:
    # 698 TFLOP/s with Triton on one H200.
    assert launch_ns(H200, MATMUL) == pytest.approx(1.575e6, rel=0.15)


def test_indices_do_not_decide_the_rate() -> None:
    indices, table = Operand("i64", (1 << 20,)), Operand("bf16", (8, 8))
    kernel = Kernel("gather", (indices, table), (table,), 10**12, 0)
    assert launch_ns(H200, kernel) == kernel_ns(H200, "other", 10**12, 0, "bf16")


def test_a_move_has_a_latency_and_a_bandwidth() -> None:
    assert move_ns(H200, "pinned_host", "device", 55_000_000) == pytest.approx(1e6 + 5000)


def test_what_is_not_described_is_refused() -> None:
    with pytest.raises(DmcError, match="kernel of kind 'sort': has no efficiency on h200"):
        kernel_ns(H200, "sort", 1, 1, "f32")
    with pytest.raises(DmcError, match="computes in f128: has no rate on h200"):
        kernel_ns(H200, "other", 1, 1, "f128")
    with pytest.raises(DmcError, match="collective of kind 'gossip': has no bandwidth over nvlink4"):
        collective_ns(machine("h200x2"), "gossip", (0, 1), 8)
    with pytest.raises(DmcError, match="copy device>disk: is not described for h200"):
        move_ns(H200, "device", "disk", 1)


def test_rings_within_a_node() -> None:
    node, bytes = machine("h200x4"), 3 << 30
    for kind, share in (("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75)):
        steps = {"all_reduce": 4, "all_to_all": 1}.get(kind, 3)
        expected = 6600 + steps * 1900 + share * bytes / 3e11 * 1e9
        assert collective_ns(node, kind, range(4), bytes) == pytest.approx(expected), kind


def test_the_all_reduce_is_near_what_was_measured() -> None:
    assert collective_ns(machine("h200x2"), "all_reduce", (0, 1), 256 << 20) == pytest.approx(0.90e6, rel=0.02)


def test_a_group_of_one_copies() -> None:
    assert collective_ns(H200, "all_reduce", (0,), 1000) == move_ns(H200, "device", "device", 1000)


def test_a_node_with_more_ports_in_the_group_has_more_bandwidth() -> None:
    node, bytes = machine("node8"), 1 << 30
    whole, rail = range(16), range(0, 16, 8)
    one_port = 2 * (1 / 2) * bytes / 4.6e10 * 1e9
    assert collective_ns(node, "all_reduce", rail, bytes) == pytest.approx(6600 + 2 * 4000 + one_port)
    # Eight ports of 46 GB/s carry more than NVLink's 300 GB/s.
    assert collective_ns(node, "all_reduce", whole, bytes) == pytest.approx(
        2 * (15 / 16) * bytes / 3e11 * 1e9, rel=0.02
    )


def test_whoever_exchanges_in_pairs_has_its_own_port_only() -> None:
    far = collective_ns(machine("node8"), "all_to_all", range(16), 1 << 30)
    assert far == pytest.approx(6600 + 4000 + (8 / 16) * (1 << 30) / 4.6e10 * 1e9)


def test_one_memory_carries_what_all_members_copy() -> None:
    two, four = (collective_ns(machine("cpu"), "all_reduce", range(n), 1 << 20) - 5000 for n in (2, 4))
    assert two == pytest.approx(4 * (1 << 20) / 2.6e10 * 1e9)
    assert four == pytest.approx(2 * two)


def test_a_curve_is_linear_between_and_beyond_its_points() -> None:
    node = _with_curve("all_reduce/2", ((100.0, 10.0), (200.0, 30.0), (400.0, 40.0)))
    times = [collective_ns(node, "all_reduce", (0, 1), size) for size in (1, 100, 150, 200, 300, 400, 600)]
    assert times == pytest.approx([10, 10, 20, 30, 35, 40, 50])
    assert collective_ns(node, "all_gather", (0, 1), 100) > 6600


def test_ranks_that_a_machine_lacks_are_refused() -> None:
    with pytest.raises(DmcError, match=r"machine h200x4: has 4 of the 5 ranks\n.*node8"):
        collective_ns(machine("h200x4"), "all_reduce", (0, 4), 8)
    with pytest.raises(DmcError, match="machine h200: has 1 of the 2 ranks"):
        collective_ns(H200, "all_reduce", (0, 1), 8)


def _with_curve(key: str, curve: tuple[tuple[float, float], ...]) -> Machine:
    node = machine("h200x2")
    assert node.link is not None
    return msgspec.structs.replace(node, link=msgspec.structs.replace(node.link, curves={key: curve}))
