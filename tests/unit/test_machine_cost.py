"""Costs follow the figures of the machine: each number here is worked out by hand from a description."""

from __future__ import annotations

import msgspec
import pytest

from dmc.errors import DmcError
from dmc.machine import Family, Machine, Measured, collective_ns, kernel_ns, launch_ns, machine, move_ns
from dmc.program import Kernel, Operand

H200 = machine("h200")
BF16 = Operand("bf16", (8192, 8192))
MATMUL = Kernel("m", (BF16, BF16), (BF16,), 2 * 8192**3, 3 * 8192 * 8192 * 2, kind="matmul")


DEVICE = H200.device
SHARES, LAUNCH, BANDWIDTH = DEVICE.efficiency.shares, DEVICE.launch.ns, DEVICE.memories["device"].bandwidth


def test_a_kernel_is_bound_by_its_slower_side() -> None:
    flops, bytes = int(1e-3 * DEVICE.matrix.rates["bf16"]), int(1e-3 * BANDWIDTH)
    assert kernel_ns(H200, "matmul", flops, 0, "bf16") == pytest.approx(1e6 / SHARES["matmul"] + LAUNCH)
    assert kernel_ns(H200, "elementwise", 0, bytes, "f32") == pytest.approx(1e6 / SHARES["elementwise"] + LAUNCH)
    assert kernel_ns(H200, "elementwise", 1, bytes, "f32") == kernel_ns(H200, "elementwise", 0, bytes, "f32")


def test_an_empty_kernel_costs_a_launch() -> None:
    assert kernel_ns(H200, "other", 0, 0, "f32") == LAUNCH


def test_a_type_without_matrix_units_multiplies_at_its_vector_rate() -> None:
    matrix = msgspec.structs.replace(DEVICE.matrix, rates={})
    plain = msgspec.structs.replace(H200, device=msgspec.structs.replace(DEVICE, matrix=matrix))
    flops = int(1e-3 * DEVICE.vector.rates["f32"])
    assert kernel_ns(plain, "matmul", flops, 0, "f32") == pytest.approx(1e6 / SHARES["matmul"] + LAUNCH)


@pytest.mark.parametrize("dtype", ["i1", "i64", "si32", "ui8", "index"])
def test_integers_of_all_widths_compute_alike(dtype: str) -> None:
    flops = int(1e-3 * DEVICE.vector.rates["int"])
    assert kernel_ns(H200, "other", flops, 0, dtype) == pytest.approx(1e6 / SHARES["other"] + LAUNCH)


def test_a_measured_time_goes_before_the_model() -> None:
    device = msgspec.structs.replace(H200.device, kernels={MATMUL.key: Measured(1.5e6, "here")})
    measured = msgspec.structs.replace(H200, device=device)
    assert launch_ns(measured, MATMUL) == 1.5e6
    renamed = msgspec.structs.replace(MATMUL, name="m_7")
    assert launch_ns(measured, renamed) == 1.5e6
    assert launch_ns(H200, MATMUL) == kernel_ns(H200, "matmul", MATMUL.flops, MATMUL.traffic, "bf16")


def test_a_family_goes_before_the_kind() -> None:
    device = msgspec.structs.replace(DEVICE, families={"iree m": Family(0.5, 3000.0, "here")})
    seen = msgspec.structs.replace(H200, device=device)
    peak = 1e9 * MATMUL.flops / DEVICE.matrix.rates["bf16"]
    assert launch_ns(seen, msgspec.structs.replace(MATMUL, name="m_3")) == pytest.approx(peak / 0.5 + 3000)
    assert launch_ns(seen, msgspec.structs.replace(MATMUL, name="n_3")) == launch_ns(H200, MATMUL)


def test_a_product_computes_in_the_type_of_its_narrowest_matrix() -> None:
    # A gradient is wider, and may be larger, than what it is the product of.
    wide = msgspec.structs.replace(MATMUL, reads=(BF16, Operand("f32", (8192, 8192)), Operand("f16", (8,))))
    made = msgspec.structs.replace(wide, writes=(Operand("f32", (9000, 9000)),))
    assert launch_ns(H200, made) == launch_ns(H200, MATMUL)


def test_the_large_matmul_is_near_what_was_measured() -> None:
    # 698 TFLOP/s with Triton on one H200.
    assert launch_ns(H200, MATMUL) == pytest.approx(1.575e6, rel=0.15)


def test_indices_do_not_decide_the_rate() -> None:
    indices, table = Operand("i64", (1 << 20,)), Operand("bf16", (8, 8))
    kernel = Kernel("gather", (indices, table), (table,), 10**12, 0)
    assert launch_ns(H200, kernel) == kernel_ns(H200, "other", 10**12, 0, "bf16")


def test_a_move_has_a_latency_and_a_bandwidth() -> None:
    copying = DEVICE.copies["pinned_host>device"]
    took = move_ns(H200, "pinned_host", "device", int(1e-3 * copying.bandwidth))
    assert took == pytest.approx(1e6 + copying.latency_ns)
    # State that waits in host memory is in pinned memory, too.
    assert move_ns(H200, "host", "device", int(1e-3 * copying.bandwidth)) == took


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
    assert node.link is not None
    # What was not measured between so many.
    node = msgspec.structs.replace(node, link=msgspec.structs.replace(node.link, curves={}))
    assert node.link is not None
    for kind, share in (("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75)):
        steps = {"all_reduce": 4, "all_to_all": 1}.get(kind, 3)
        sending = share * bytes / node.link.bandwidth[kind] * 1e9
        expected = node.link.start_ns + steps * node.link.hop_ns + sending
        assert collective_ns(node, kind, range(4), bytes) == pytest.approx(expected), kind


def test_movements_are_near_what_was_measured() -> None:
    assert collective_ns(machine("h200x2"), "all_reduce", (0, 1), 256 << 20) == pytest.approx(0.90e6, rel=0.02)
    assert collective_ns(machine("h200x4"), "all_to_all", range(4), 1 << 20) == pytest.approx(32e3, rel=0.02)


def test_a_group_of_one_copies() -> None:
    assert collective_ns(H200, "all_reduce", (0,), 1000) == move_ns(H200, "device", "device", 1000)


def test_a_node_with_more_ports_in_the_group_has_more_bandwidth() -> None:
    node, bytes = machine("node8"), 1 << 30
    whole, rail = range(16), range(0, 16, 8)
    one_port = 2 * (1 / 2) * bytes / 4.6e10 * 1e9
    assert node.link is not None
    assert collective_ns(node, "all_reduce", rail, bytes) == pytest.approx(6600 + 2 * 4000 + one_port)
    # Eight ports of 46 GB/s carry more than NVLink.
    inside = 2 * (15 / 16) * bytes / node.link.bandwidth["all_reduce"] * 1e9
    assert collective_ns(node, "all_reduce", whole, bytes) == pytest.approx(inside, rel=0.02)


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
