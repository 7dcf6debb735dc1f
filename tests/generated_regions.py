"""For tests of generated kernels: regions as text, operands for them, and what they should give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dmc._mlir import ir
from dmc.interpreter.bodies import kernels_of
from dmc.kernels.generated import Generated, generate
from dmc.kernels.problem import TensorType
from dmc.kernels.recipe import Recipe
from tests.triton_interpreter import interpret

Array = NDArray[Any]
FOLDER = Path(__file__).parent / "generated"
_TORCH = "f32 float32 f16 float16 bf16 bfloat16 f64 float64 i64 int64 i32 int32 i8 int8 i1 bool".split()
TORCH = {name: getattr(torch, dtype) for name, dtype in zip(_TORCH[::2], _TORCH[1::2], strict=True)}
# Norm of the error ÷ norm of the reference: sums in another order, and narrow results that are rounded once more.
TOLERANCE = {"f64": 3e-6, "f32": 3e-6, "f16": 2e-3, "bf16": 8e-3}
# Where the reference is zero.
FLOOR = 1e-6


def regions_of(module: ir.Module) -> dict[str, Any]:
    """The private functions of a module by name."""
    functions = [view.operation for view in module.body.operations]
    private = [each for each in functions if "sym_visibility" in each.attributes and len(each.regions[0].blocks)]
    return {ir.StringAttr(each.attributes["sym_name"]).value: each for each in private}


def region(text: str) -> ir.Module:
    """The module of one region, from the signature and body of a function."""
    return ir.Module.parse(f"module {{ func.func private @region{text} }}")


def sample(types: Sequence[TensorType], seed: int, limit: int = 8, special: bool = False) -> tuple[Tensor, ...]:
    """Operands: normal numbers, if `special` with NaN and infinities among them, and integers below `limit`."""
    random = np.random.default_rng(seed)
    made: list[Tensor] = []
    for each in types:
        if each.dtype in TOLERANCE:
            numbers = random.standard_normal(each.shape)
            if special:
                chosen = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], each.shape)
                numbers = np.where(random.random(each.shape) < 0.05, chosen, numbers)
            made.append(torch.tensor(numbers.astype(np.float32)).to(TORCH[each.dtype]))
        elif each.dtype == "i1":
            # One alone is the guard, without which nothing is updated.
            made.append(torch.tensor(random.random(each.shape) < 0.7) if each.shape else torch.tensor(True))
        else:
            made.append(torch.tensor(random.integers(0, limit, each.shape)).to(TORCH[each.dtype]))
    return tuple(made)


def assert_right(module: ir.Module, name: str = "region", every: bool = True, **options: Any) -> Generated:
    """Interprets recipes of a region, with results in place of operands, and compares them with numpy's results.

    every: not the first recipe alone, and also without anything in place.
    """
    generated = generate(regions_of(module)[name])
    operands = sample(generated.problem.operands, 0, **options)
    with np.errstate(all="ignore"):
        wanted = kernels_of(module)[name]([_array(each) for each in operands])
    is_narrow = any(each.dtype == "bf16" for each in (*generated.problem.operands, *generated.problem.results))
    for recipe in generated.recipes if every else generated.recipes[:1]:
        pairs = _some_pairs(recipe)
        for chosen in ((), pairs) if every and pairs else (pairs,):
            made = interpret(generated.problem, recipe, tuple(each.clone() for each in operands), chosen)
            for number, (one, other) in enumerate(zip(made, wanted, strict=True)):
                assert_same(one, other, is_narrow, f"{generated.problem}, result {number}")
    return generated


def _some_pairs(recipe: Recipe) -> tuple[tuple[int, int], ...]:
    """Results in place of operands, each of one only."""
    pairs: dict[int, int] = {}
    for result, operand in recipe.in_place:
        if operand not in pairs.values():
            pairs.setdefault(result, operand)
    return tuple(pairs.items())


def assert_same(made: Tensor, wanted: Array, is_narrow: bool, what: str) -> None:
    """Integers are equal; numbers are close, and NaN and infinite in the same places."""
    if not made.is_floating_point():
        assert np.array_equal(made.numpy(), wanted), what
        return
    one, other = made.double().numpy(), wanted.astype(np.float64)
    finite = np.isfinite(other)
    assert np.array_equal(one[~finite], other[~finite], equal_nan=True), what
    tolerance = TOLERANCE["bf16" if is_narrow else str(made.dtype).replace("torch.float", "f")]
    error = np.linalg.norm(one[finite] - other[finite])
    assert error <= tolerance * np.linalg.norm(other[finite]) + FLOOR, (what, float(error))


def _array(tensor: Tensor) -> Array:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def shaped(name: str, **sizes: int | str) -> ir.Module:
    """The region of a file in tests/generated, with each `$size` filled in."""
    text = (FOLDER / f"{name}.mlir.in").read_text(encoding="utf-8")
    for size in sorted(sizes, key=len, reverse=True):
        text = text.replace(f"${size}", str(sizes[size]))
    return ir.Module.parse(text)
