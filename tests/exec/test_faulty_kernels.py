"""A kernel that takes IREE's compiler down only when its code is generated: compiled in another way, or named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import dmc
from dmc.api import compile_artifact
from dmc.errors import CodegenError
from dmc.runtime.files.artifact import Artifact
from tests.faulty_iree import given, has, put_fault

LAST, KERNEL, IN_PIECES = given("compile-from=stream"), has("@matmul_0_dispatch_0"), has("@matmul_0_dispatch_1")


def _compiled(width: int, verify: bool) -> Artifact:
    """A step whose kernel @matmul_0 is a product, a bias and GELU. Kernels are kept: no other test has this width."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, width), nn.GELU(), nn.Linear(width, 4))
    return compile_artifact(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=dmc.optim.SGD(lr=0.1),
        example=(torch.randn(6, 8), torch.randint(4, (6,))),
        verify=verify,
    )


def test_it_is_compiled_in_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_fault("crashed", f"{LAST} && {KERNEL} && ! {IN_PIECES}", tmp_path, monkeypatch)
    assert "dm.ways = {matmul_0 = 2" in _compiled(17, verify=True).ir["01-imported"]


def test_it_is_named_if_nothing_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_fault("crashed", f"{LAST} && {KERNEL}", tmp_path, monkeypatch)
    with pytest.raises(CodegenError, match=r"kernel @matmul_0, 0#aten.mm \(.*:\d+\): IREE's compiler crashes"):
        _compiled(19, verify=False)
