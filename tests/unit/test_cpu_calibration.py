"""What kernels of known times say of a CPU's peaks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dmc.calibration.cpu import Timed, fitted
from dmc.machine import Machine, at_peak_ns, launch_ns, machine
from dmc.program import Kernel, Operand

MADE = (Operand("f32", (1024, 1024)),)
PRODUCT = Kernel("product", MADE, MADE, 10_000_000_000, 1_000_000, kind="matmul")
SUM = Kernel("sum", MADE, MADE, 0, 1_000_000_000, kind="reduction")


def _fitted(speeds: Mapping[str, float]) -> Machine:
    """The CPU, with kernels that are so many times as fast as its peaks."""
    peaks = machine("cpu")
    return fitted(
        peaks, [Timed([each], at_peak_ns(peaks, each) / speeds[each.kind]) for each in (PRODUCT, SUM)], "test"
    )


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.7, 3.0])
def test_products_that_exceed_the_peak_raise_it(speed: float) -> None:
    found, before = _fitted({"matmul": speed, "reduction": 0.5}), machine("cpu").device.vector
    rates = {name: rate * max(speed, 1.0) for name, rate in before.rates.items()}
    assert found.device.vector.rates == pytest.approx(rates, rel=1e-3)
    assert found.device.efficiency.shares["matmul"] == pytest.approx(min(speed, 1.0), rel=1e-3)
    assert ("raised" in found.device.vector.source) == (speed > 1)
    wanted = at_peak_ns(machine("cpu"), PRODUCT) / speed
    assert launch_ns(found, PRODUCT) == pytest.approx(wanted, rel=1e-3)


def test_other_kernels_do_not_raise_it() -> None:
    found = _fitted({"matmul": 0.5, "reduction": 2.0})
    assert found.device.vector == machine("cpu").device.vector
    assert found.device.efficiency.shares["reduction"] == 1.0
