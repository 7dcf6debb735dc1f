"""Which kernels have results that IREE may have mixed up: values of one dispatch that are copied to several results."""

from __future__ import annotations

import pytest

from dmc.errors import CodegenError
from dmc.lowering.iree.equal_results import check_results, share_results
from dmc.lowering.kernel_code import CodeLibrary, Copy, Dispatch, Fill, Group, KernelCode, KernelCommand
from dmc.program.code import Binding, Place

SIZE = 64
OPERAND = Place("read", 0, 0, SIZE)
FIRST, SECOND, THIRD = (Place("write", number, 0, SIZE) for number in range(3))
HERE, THERE, BOTH = Place("scratch", 0, 0, SIZE), Place("scratch", 0, SIZE, SIZE), Place("scratch", 0, 0, 2 * SIZE)
ONE, TWO = "one", "two"
WRITTEN = "%2 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:x>\n"
CODE = {ONE: WRITTEN, TWO: WRITTEN + WRITTEN}


def _writing(*places: Place, executable: str = ONE) -> Dispatch:
    bindings = Binding("ro", OPERAND), *(Binding("wo", place) for place in places)
    return Dispatch(executable, "f", (), (), bindings)


def _library(*commands: KernelCommand) -> CodeLibrary:
    return CodeLibrary("", {"k": KernelCode("k", commands, 2 * SIZE)}, CODE)


TO_BOTH = Copy(HERE, FIRST), Copy(HERE, SECOND)
SHARED: dict[str, tuple[KernelCommand, ...]] = {
    "one of two results, copied twice": (_writing(HERE, THERE), *TO_BOTH),
    "one of two results, copied to the other": (_writing(FIRST, THERE), Copy(FIRST, SECOND)),
    "one of two results in one buffer": (_writing(BOTH, executable=TWO), *TO_BOTH),
    "in a group": (_writing(HERE, THERE), Group(TO_BOTH)),
    "through another result": (_writing(HERE, THERE), Copy(HERE, FIRST), Copy(FIRST, SECOND)),
    "into two parts of a result": (_writing(HERE, THERE), Copy(HERE, FIRST), Copy(HERE, Place("write", 0, SIZE, SIZE))),
    "from where other code may write": (_writing(BOTH), _writing(BOTH, executable=TWO), *TO_BOTH),
    "from where no code is known to write": (_writing(THIRD, THERE), *TO_BOTH),
}
APART: dict[str, tuple[KernelCommand, ...]] = {
    "the only result, copied twice": (_writing(HERE), *TO_BOTH),
    "the only result, copied to another": (Group((_writing(FIRST),)), Copy(FIRST, SECOND)),
    "the only result, somewhere in a buffer": (_writing(BOTH), Copy(THERE, FIRST), Copy(THERE, SECOND)),
    "the only result, and two others": (_writing(HERE), _writing(THIRD, THERE), *TO_BOTH),
    "two results": (_writing(HERE, THERE), Copy(HERE, FIRST), Copy(THERE, SECOND)),
    "an operand": (_writing(HERE, THERE), Copy(OPERAND, FIRST), Copy(OPERAND, SECOND)),
    "no result of a dispatch": (Fill("0 : i32", HERE), *TO_BOTH),
    "into scratch": (_writing(FIRST, THERE), Copy(FIRST, HERE), Copy(FIRST, THERE)),
}


@pytest.mark.parametrize("name", [*SHARED, *APART])
def test_what_one_dispatch_gives_for_several_results(name: str) -> None:
    library = _library(*(SHARED | APART)[name])
    assert share_results(library) == ({"k"} if name in SHARED else set())


RESHAPED = "    %b = tensor.expand_shape %a#0 [[0, 1]] output_shape [4, 4] : tensor<16xf32> into tensor<4x4xf32>\n"
BEHIND = "    %c = iree_tensor_ext.compute_barrier.end %b : tensor<4x4xf32> -> tensor<4x4xf32>\n"
DISPATCH = "    %a:2 = flow.dispatch.workgroups(%x) : (tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>)\n"


def _program(*values: str, before: str = "", name: str = "k") -> str:
    lines = [
        f"    %r{number} = hal.tensor.alias %{value} : tensor<16xf32> to %arg{number} : !hal.buffer_view\n"
        f'    %s{number} = hal.tensor.export %r{number} "output{number}" : tensor<16xf32> -> !hal.buffer_view\n'
        for number, value in enumerate(values)
    ]
    return f"  util.func public @{name}(%x: !hal.buffer_view) {{\n{before}{''.join(lines)}  }}\n"


EQUAL = {
    "one value": _program("a#0", "a#0"),
    "one value in two shapes": _program("a#0", "b", before=RESHAPED),
    "one value behind a barrier": _program("c", "a#0", before=RESHAPED + BEHIND),
}
UNEQUAL = {
    "two values": _program("a#0", "a#1"),
    "two other results are one value": _program("a#0", "a#1", "a#1"),
    "dispatches are formed already": _program("a#0", "a#0", before=DISPATCH),
    "a result is missing": _program("a#0"),
    "the kernel is missing": _program("a#0", "a#0", name="other"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_was_equal_before_dispatches_were_formed_is_not_mixed_up(name: str) -> None:
    check_results(_library(*SHARED["one of two results, copied twice"]), EQUAL[name])


@pytest.mark.parametrize("name", UNEQUAL)
def test_what_was_not_equal_before_is_refused(name: str) -> None:
    with pytest.raises(CodegenError, match="kernel @k: IREE takes two of its results for equal") as caught:
        check_results(_library(*SHARED["one of two results, copied twice"]), UNEQUAL[name])
    assert caught.value.kernels == {"k"}


def test_parts_of_a_result_are_not_known_to_be_equal() -> None:
    with pytest.raises(CodegenError, match="takes two of its results for equal"):
        check_results(_library(*SHARED["into two parts of a result"]), EQUAL["one value"])
