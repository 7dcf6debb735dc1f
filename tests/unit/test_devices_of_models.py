"""A tensor that a model puts on a device is noticed where it is made, whether that device is there or not."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensor, FakeTensorMode

from dmc.errors import DmcError
from dmc.importer.capture.devices import on_the_cpu


@pytest.mark.parametrize("device", ["cuda:0", "xpu:0", "mps:0"])
def test_a_result_on_a_device_is_refused(device: str) -> None:
    with on_the_cpu(), FakeTensorMode() as mode:
        elsewhere = FakeTensor(mode, torch.empty(2, device="meta"), torch.device(device))
        with pytest.raises(DmcError, match=f"puts a tensor on {device}"):
            _ = elsewhere + elsewhere


def test_tensors_on_the_cpu_and_without_numbers_pass() -> None:
    with on_the_cpu(), FakeTensorMode():
        assert (torch.ones(2) + torch.ones(2)).device.type == "cpu"
        assert torch.empty(2, device="meta").device.type == "meta"
