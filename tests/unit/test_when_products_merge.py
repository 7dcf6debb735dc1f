"""Which products around attention become one, condition by condition: each step is one change away from another."""

from __future__ import annotations

from typing import Any

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.passes.base import parse_pipeline, run_passes
from tests.merged_products import attended, cast, differentiated, joined, product, turned

ODD = 12  # in bfloat16, rows of so many elements do not begin at multiples of 16 bytes


def _merged(context: Any, text: str, keeping: str = "") -> bool:
    dialect.load(context)
    module = ir.Module.parse(text, context)
    if keeping:
        words = [ir.StringAttr.get(f"recompute {keeping}", context)]
        module.operation.attributes["dm.keeping"] = ir.ArrayAttr.get(words, context)
    run_passes(module, parse_pipeline("dm-merge-products"))
    return "tensor.concat" in str(module)


def _layer(name: str, *, width: int = 16, op: str = "addf", kind: str = "bias") -> str:
    """A linear layer from `%x` and a weight to `%{name}r`."""
    made = cast(f"{name}n", name, f"{width}x16") + turned(f"{name}t", f"{name}n", width, 16)
    made += product(f"{name}p", "x", f"{name}t", (8, 16, width), place=f"attention.{name}#mm")
    if width == ODD:
        return made + cast(f"{name}r", f"{name}p", f"8x{width}")
    return made + joined(f"{name}j", f"{name}p", f"{kind[0]}{name}", op, kind) + cast(f"{name}r", f"{name}j", "8x16")


def _scaled(name: str) -> str:
    return _layer(name, op="mulf", kind="one").replace(f"%o{name}", f"%s{name}")


def _computed(name: str) -> str:
    """A layer whose weight is computed: it may not be there before the products of the others."""
    source = f"  %{name}_c = tensor.cast %{name} : tensor<16x16xf32> to tensor<16x16xf32>\n"
    return source + _layer(name).replace(f"ins(%{name} :", f"ins(%{name}_c :")


FORWARD = {
    "three layers": (attended(_layer), True),
    "weights that are read besides, as rows": (attended(_layer, more="%kn: tensor<16x16xbf16>"), True),
    "keys that are read besides": (attended(_layer, more="%kr: tensor<8x16xbf16>"), False),
    "a product that is read besides": (attended(_layer, more="%kp: tensor<8x16xf32>"), False),
    "rows that are not aligned": (attended(lambda name: _layer(name, width=ODD), width=ODD), False),
    "the same scale": (attended(_scaled).replace("%sk :", "%sq :").replace("%sv :", "%sq :"), True),
    "scales of their own": (attended(_scaled), False),
    "queries with a bias that is added, others with one that is subtracted": (
        attended(lambda name: _layer(name, op="addf" if name == "q" else "subf")),
        False,
    ),
    "computed weights": (attended(_computed), False),
}


def _behind(name: str, *, width: int = 16, rounded: bool = True, start: str = "", narrow: str = "") -> str:
    """What follows the gradient of a layer's result: `%{name}t` for the input, `%{name}w` for the weight."""
    gradient = f"g#{'qkv'.index(name)}"
    made = narrow or cast(f"{name}n", name, f"{width}x16")
    made += product(f"{name}d" if rounded else f"{name}t", gradient, f"{name}n", (8, width, 16), start)
    if rounded:
        made += cast(f"{name}s", f"{name}d", "8x16") + cast(f"{name}t", f"{name}s", "8x16", "extf")
    made += turned(f"{name}g", gradient, 8, width)
    made += product(f"{name}p", f"{name}g", "x", (width, 8, 16), place=f"attention.{name}#mm, backward")
    return made + cast(f"{name}w", f"{name}p", f"{width}x16")


def _read_twice(name: str) -> str:
    other = product(f"{name}o", f"g#{'qkv'.index(name)}", f"{name}n", (8, 16, 16))
    return _behind(name, narrow=cast(f"{name}n", name, "16x16") + other)


def _turned(name: str) -> str:
    """The weight lies the other way, so that the gradient of the input reads it transposed."""
    return _behind(name, narrow=cast(f"{name}c", name, "16x16") + turned(f"{name}n", f"{name}c", 16, 16))


_NARROW = differentiated(lambda name: _behind(name, narrow=" "), weight="bf16")
BACKWARD = {
    "three layers": (differentiated(_behind), True),
    "gradients that others read": (
        differentiated(_behind, more="%g#0, %g#1, %g#2: " + ", ".join(["tensor<8x16xbf16>"] * 3)),
        False,
    ),
    "gradients of which two products are made": (differentiated(_read_twice, more="%ko: tensor<8x16xf32>"), False),
    "rows that are not aligned": (differentiated(lambda name: _behind(name, width=ODD), width=ODD), False),
    "a sum that is read without a term": (differentiated(_behind, more="%sum2: tensor<8x16xf32>"), False),
    "a term that is not added": (differentiated(_behind, terms="vq", more="%kt: tensor<8x16xf32>"), False),
    "a term that is added twice": (differentiated(_behind, terms="vkkq"), False),
    "a product that does not start at zero": (
        differentiated(lambda name: _behind(name, start="r" if name == "k" else "")),
        False,
    ),
    "a term that is not rounded": (differentiated(lambda name: _behind(name, rounded=name != "k")), False),
    "terms none of which is rounded": (differentiated(lambda name: _behind(name, rounded=False)), True),
    "weights that would be copied": (
        _NARROW.replace("%q:", "%qn:").replace("%k:", "%kn:").replace("%v:", "%vn:"),
        False,
    ),
    "transposed weights": (differentiated(_turned), True),
    "weights that would be cast twice": (differentiated(_turned, more="%kc: tensor<16x16xbf16>"), False),
}
CASES = {f"{way}: {name}": case for way, cases in (("to", FORWARD), ("from", BACKWARD)) for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
def test_products_merge_where_nothing_is_copied_or_computed_twice(context: Any, name: str) -> None:
    text, is_merged = CASES[name]
    assert _merged(context, text) == is_merged


@pytest.mark.parametrize("text", [attended(_layer), differentiated(_behind)], ids=["to", "from"])
def test_products_merge_where_the_user_means_all_or_none(context: Any, text: str) -> None:
    assert _merged(context, text, "attention")
    assert not _merged(context, text, "attention.k")
