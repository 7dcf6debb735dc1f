"""What passes know of each kind of composite, said once; what kinds compute is in `dmc/importer/composites`.

Passes ask for a trait, not for a name. How ranks may split a kind is a rule of `dmc/analysis/loops/composites.py`, and
what implements it an entry of `dmc/kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LOSS, LOSS_GRADIENT = "softmax_cross_entropy", "softmax_cross_entropy_backward"
# Both in one launch, for a gradient that waits for nothing of the loss.
LOSS_AND_GRADIENT = "softmax_cross_entropy_both"
UPDATE = "optimizer_update_"


@dataclass(frozen=True)
class Traits:
    """What is true of a kind of composite. Operands and results are given by number.

    is_whole: worth a kernel of its own where an implementation supports it; others cost less when fused with
    neighbours. draws: takes the index of a draw of random numbers. is_product: its kernels compute matrix products.
    is_lookup: takes rows of a table. is_update: makes new state of a parameter and its gradient, or, is_of_buffer, of
    what `forward` wrote. is_elementwise: an update whose elements are independent of each other.

    queries: the operand with attention's queries; the keys follow. classes: the operand with the classes of a cross
    entropy.

    In kernels: optional: how many trailing results may be left out. pads_rows: they write zeros behind each row of a
    padded result. sums_rows: they add up the rows of the matrix that their results make up.

    Of padding: is_opened: its decomposition is padded instead where what is padded must be whole. driver: an operand,
    and the results that are zero where that is zero and the others are finite. is_finite: as with a driver, of finite
    operands all results are finite. summed: operands that must be zero along a loop over which it sums; None where that
    does not suffice. has_unread_rows: its result is zero in rows that no index names.
    """

    is_whole: bool = False
    draws: bool = False
    is_product: bool = False
    is_lookup: bool = False
    is_update: bool = False
    is_of_buffer: bool = False
    is_elementwise: bool = False
    queries: int | None = None
    classes: int | None = None
    optional: int = 0
    pads_rows: bool = False
    sums_rows: bool = False
    is_opened: bool = False
    driver: tuple[int, tuple[int, ...]] | None = None
    is_finite: bool = False
    summed: tuple[int, ...] | None = None
    has_unread_rows: bool = False


_FIRST = (0, (0,))
TRAITS: Mapping[str, Traits] = {
    "attention": Traits(is_whole=True, draws=True, is_product=True, queries=0, driver=(2, (0,))),
    "attention_backward": Traits(
        is_whole=True,
        draws=True,
        is_product=True,
        queries=1,
        optional=1,
        sums_rows=True,
        driver=(0, (0, 1, 2, 3)),
        summed=(0,),
    ),
    "dropout": Traits(draws=True, is_opened=True),
    "embedding": Traits(is_lookup=True, driver=_FIRST, summed=()),
    "embedding_backward": Traits(is_whole=True, driver=_FIRST, summed=(0,), has_unread_rows=True),
    "expert_order": Traits(is_whole=True),
    "gelu": Traits(driver=_FIRST),
    "gelu_backward": Traits(driver=_FIRST),
    "grouped_outer_product": Traits(is_whole=True, is_product=True, summed=(0, 1)),
    "grouped_product": Traits(is_whole=True, is_product=True, driver=_FIRST),
    "layer_norm": Traits(is_opened=True, is_finite=True),
    "layer_norm_backward": Traits(is_opened=True, driver=(0, (0, 1, 2)), summed=(0,)),
    "rms_norm": Traits(is_opened=True, is_finite=True),
    "rms_norm_backward": Traits(is_opened=True, driver=(0, (0, 1)), summed=(0,)),
    LOSS: Traits(is_whole=True, classes=1, is_opened=True, summed=()),
    LOSS_GRADIENT: Traits(is_whole=True, classes=2, pads_rows=True, is_opened=True, is_finite=True),
    LOSS_AND_GRADIENT: Traits(pads_rows=True),
    "sum_of_squares": Traits(summed=(0,)),
}
# By the rule with which the name goes on; all options of a rule have its traits.
_UPDATES = {
    "adafactor": Traits(is_update=True),
    "muon": Traits(is_update=True),
    "keep": Traits(is_update=True, is_elementwise=True, is_of_buffer=True),
    "": Traits(is_update=True, is_elementwise=True),
}
_NONE = Traits()


def traits_of_kind(kind: str) -> Traits:
    """The traits of a kind of composite; of one that passes know nothing of, none."""
    if kind.startswith(UPDATE):
        return next(traits for rule, traits in _UPDATES.items() if kind.startswith(UPDATE + rule))
    return TRAITS.get(kind, _NONE)
