"""Which kernels have results that IREE may have mixed up: values of one dispatch that are copied to several results."""

from __future__ import annotations

import pytest

from dmc.errors import CodegenError
from dmc.lowering.equal_results import check_results, share_results
from dmc.lowering.kernel_code import CodeLibrary, Copy, Dispatch, Group, KernelCode, KernelCommand
from dmc.program.code import Binding, Place

SIZE = 64
OPERAND, FIRST, SECOND = Place("read", 0, 0, SIZE), Place("write", 0, 0, SIZE), Place("write", 1, 0, SIZE)
HERE, THERE = Place("scratch", 0, 0, SIZE), Place("scratch", 0, SIZE, SIZE)


def _writing(*places: Place) -> Dispatch:
    return Dispatch("e", "f", (), (), (Binding("ro", OPERAND), *(Binding("wo", place) for place in places)))


def _library(*commands: KernelCommand) -> CodeLibrary:
    return CodeLibrary("", {"k": KernelCode("k", commands, 2 * SIZE)}, {})


TO_BOTH = Copy(HERE, FIRST), Copy(HERE, SECOND)
SHARED: dict[str, tuple[KernelCommand, ...]] = {
    "one of two results, copied twice": (_writing(HERE, THERE), *TO_BOTH),
    "one of two results, copied to the other": (_writing(FIRST, THERE), Copy(FIRST, SECOND)),
    "in a group": (_writing(HERE, THERE), Group(TO_BOTH)),
}
APART: dict[str, tuple[KernelCommand, ...]] = {
    "the only result, copied twice": (_writing(HERE), *TO_BOTH),
    "the only result, copied to another": (Group((_writing(FIRST),)), Copy(FIRST, SECOND)),
    "two results": (_writing(HERE, THERE), Copy(HERE, FIRST), Copy(THERE, SECOND)),
    "an operand": (Copy(OPERAND, FIRST), Copy(OPERAND, SECOND)),
    "into scratch": (_writing(FIRST, THERE), Copy(FIRST, HERE), Copy(FIRST, THERE)),
}


@pytest.mark.parametrize("name", [*SHARED, *APART])
def test_what_one_dispatch_gives_for_several_results(name: str) -> None:
    library = _library(*(SHARED | APART)[name])
    assert share_results(library) == ({"k"} if name in SHARED else set())


def test_what_was_equal_before_dispatches_were_formed_is_not_mixed_up() -> None:
    library = _library(*SHARED["one of two results, copied twice"])
    alias = "    %{} = hal.tensor.alias %{} : tensor<16xf32> to %arg0 : !hal.buffer_view\n"
    text = "  util.func public @k(%x: !hal.buffer_view) {{\n{}  }}\n"
    once = text.format(alias.format(1, "a#0") + alias.format(2, "a#0"))
    later = text.format(alias.format(1, "a#0") + alias.format(2, "a#1"))
    check_results(library, once)
    reshaped = "    %b = tensor.expand_shape %a#0 [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>\n"
    check_results(library, text.format(reshaped + alias.format(1, "a#0") + alias.format(2, "b")))
    with pytest.raises(CodegenError, match="kernel @k: IREE takes two of its results for equal") as caught:
        check_results(library, later)
    assert caught.value.kernels == {"k"}
