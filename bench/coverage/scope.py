"""What no step contains today, told from what a call does in eager: complex numbers, sparse tensors, shapes that depend
on data. Random numbers that a step does not draw have no reference to be compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.importer.forward.random_numbers.distributions import DISTRIBUTIONS
from tests.fuzz.train import Case

# What eager draws of a step's bits in `tests/fuzz/train.py`.
DRAWN = {torch.ops.aten.bernoulli_.float, torch.ops.aten.native_dropout.default, *DISTRIBUTIONS}
_TAGS = {
    torch.Tag.dynamic_output_shape: "a shape depends on data",
}


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []
        self.drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        draws = torch.Tag.nondeterministic_seeded in func.tags
        seed = torch.get_rng_state() if draws else None
        result = func(*args, **(kwargs or {}))
        if seed is not None and func not in DRAWN and not torch.equal(seed, torch.get_rng_state()):
            self.drew = True
        self.reasons += [reason for tag, reason in _TAGS.items() if tag in func.tags]
        for leaf in pytree.tree_leaves((args, kwargs, result)):
            if isinstance(leaf, Tensor):
                self.reasons += _of_tensor(leaf)
        return result


def _of_tensor(tensor: Tensor) -> list[str]:
    if tensor.is_complex():
        return ["complex numbers"]
    if tensor.layout != torch.strided:
        return ["sparse tensors"]
    return ["quantised tensors"] if tensor.is_quantized else []


def out_of_scope(case: Case) -> tuple[str, bool]:
    """Why a refusal of a case is expected, or nothing; and whether it can be compared with eager at all.

    Forward and backward are looked at.
    """
    case = case.fresh()
    with _Watch() as watch:
        try:
            loss, _ = case.module(*case.inputs)
            if loss.requires_grad:
                loss.backward()
        except Exception as error:  # Calls that PyTorch refuses are no cases.
            return watch.reasons[0] if watch.reasons else f"eager: {str(error).splitlines()[0]}", False
        if not loss.requires_grad:
            return watch.reasons[0] if watch.reasons else "no gradient", False
    if watch.drew:
        return "draws random numbers", False
    return watch.reasons[0] if watch.reasons else "", True
