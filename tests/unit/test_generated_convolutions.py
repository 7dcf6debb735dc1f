"""Convolutions whose tiles the copy engine transfers, in Triton's interpreter."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from dmc.kernels.generated import Generated, generate
from dmc.kernels.recipe import Buffer
from tests.convolution_regions import Convolution
from tests.generated_regions import assert_right, assert_same, regions_of, sample
from tests.machine_code import machine_code
from tests.triton_interpreter import interpret

CASES = {
    "plain": Convolution(4, 16, 32, 32),
    "valid": Convolution(4, 16, 32, 16, pad=0),
    "stride": Convolution(5, 16, 16, 32, step=2),
    "one_tap": Convolution(5, 32, 16, 16, taps=1, pad=0, step=2),
    "five_taps": Convolution(3, 16, 16, 16, taps=5, pad=2),
    "dilated": Convolution(5, 16, 16, 16, dilation=2, pad=2),
    "strided_and_dilated": Convolution(7, 16, 16, 16, dilation=2, pad=2, step=2),
    "beyond_the_image": Convolution(2, 16, 16, 16, pad=4),
    "stuffed": Convolution(3, 16, 32, 16, gap=2),
    "stuffed_with_one_tap": Convolution(3, 16, 32, 16, gap=2, taps=1, pad=0),
    "stuffed_and_dilated": Convolution(3, 16, 16, 16, gap=2, dilation=2, pad=2),
    "gaps_that_taps_share": Convolution(2, 16, 16, 16, gap=4, dilation=2, pad=2),
    "several_tiles_of_a_pixel": Convolution(3, 128, 64, 64),
    "features_that_no_tile_divides": Convolution(3, 16, 16, 24),
}
FALLBACKS = {
    "channels": Convolution(4, 16, 3, 16),
    "images": Convolution(4, 5, 16, 16),
}


# Deep enough that the gradient of its filters is a sum of parts.
DEEP = {
    "plain": Convolution(8, 16, 16, 16),
    "stride": Convolution(9, 64, 16, 16, step=2),
    "one_tap": Convolution(8, 16, 16, 16, taps=1, pad=0),
    "parts_of_different_sizes": Convolution(9, 16, 16, 16, taps=5, pad=2),
}


def is_copied(generated: Generated) -> bool:
    source = generated.recipes[0].calls[0].source
    return "x0_tiles.load" in source and "x1_tiles.load" in source


@pytest.mark.parametrize("name", CASES)
def test_results(context: Any, name: str) -> None:
    generated = assert_right(CASES[name].forward(), every=False)
    assert is_copied(generated) and "y0_tiles.store" in generated.recipes[0].calls[0].source


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_filters(context: Any, name: str) -> None:
    assert is_copied(assert_right(CASES[name].filters(), every=False))


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(*(st.integers(1, most) for most in (5, 4, 3, 3, 4)), st.integers(0, 4), st.booleans())
def test_any_window(
    context: Any, size: int, taps: int, step: int, dilation: int, gap: int, pad: int, is_gradient: bool
) -> None:
    convolution = Convolution(size, 16, 16, 16, taps, pad, step, dilation, gap)
    assume(convolution.made > 0)
    assert_right(convolution.filters() if is_gradient else convolution.forward(), every=False)


@pytest.mark.parametrize("name", DEEP)
def test_gradients_of_filters_in_parts(context: Any, name: str) -> None:
    generated = assert_right(DEEP[name].filters(), every=False)
    assert is_copied(generated) and len(generated.recipes[0].calls) == 2


def test_every_candidate(context: Any) -> None:
    assert_right(Convolution(3, 64, 32, 64).forward())
    assert_right(DEEP["plain"].filters())


@pytest.mark.parametrize(
    ("convolution", "steps"),
    # Along each side, 2 taps reach the image at an edge and 3 inside; 1 or 2 where every second pixel is a gap.
    [(CASES["plain"], (2 + 3 + 3 + 2) ** 2), (CASES["stuffed"], (1 + 2 + 1 + 2 + 1) ** 2)],
)
def test_steps_without_an_image_are_skipped(
    context: Any, monkeypatch: Any, convolution: Convolution, steps: int
) -> None:
    builder = importlib.import_module("triton.runtime.interpreter").InterpreterBuilder
    multiply, done = builder.create_dot, list[None]()

    def counted(*arguments: Any) -> Any:
        done.append(None)
        return multiply(*arguments)

    monkeypatch.setattr(builder, "create_dot", counted)
    generated = assert_right(convolution.forward(), every=False)
    assert len(done) == steps
    assert "tl.where" not in generated.recipes[0].calls[0].source, "a condition that every step fulfils"


def test_taps_that_all_fall_into_gaps_are_read_beyond_the_image(context: Any) -> None:
    generated = assert_right(CASES["gaps_that_taps_share"].forward(), every=False)
    assert "tl.where" in generated.recipes[0].calls[0].source


@pytest.mark.parametrize("name", FALLBACKS)
def test_what_no_tile_divides_is_loaded_by_threads(context: Any, name: str) -> None:
    for module in (FALLBACKS[name].forward(), FALLBACKS[name].filters()):
        assert not is_copied(assert_right(module, every=False))


def test_tiles_that_are_not_aligned_are_loaded_by_threads(context: Any) -> None:
    """A part of the depth is the same then, so that its sum is."""
    generated = assert_right(DEEP["plain"].filters(), every=False)
    recipe, operands = generated.recipes[0], sample(generated.problem.operands, 0)
    calls = tuple(call.aligned((Buffer("operand", 0),)) for call in recipe.calls)
    assert not any(any(call.views) for call in calls)
    made, wanted = (interpret(generated.problem, each, operands) for each in (replace(recipe, calls=calls), recipe))
    assert_same(made[0], wanted[0].numpy(), False, "loaded by threads")


def test_tiles_are_loaded_ahead(context: Any) -> None:
    """Before the loop as many as there are stages but one; in the loop one more, and nothing by threads."""
    convolution = Convolution(14, 128, 64, 64)
    for entry, *_ in machine_code([(str(each), 0) for each in (convolution.forward(), convolution.filters())]):
        _, *between, _ = entry["ptx"].split("wgmma.mma_async")
        assert entry["ptx"].count("cp.async.bulk.tensor.2d.shared") == 2 * entry["stages"]
        assert not any("ld.global" in each for each in between)


def test_padding_within_a_tile_is_loaded_by_threads(context: Any) -> None:
    """Of channels: the elements of a tile are not padded alike."""
    convolution = Convolution(4, 16, 16, 16, taps=1, pad=0, beside=8)
    assert not is_copied(assert_right(convolution.forward(), every=False))


def test_padding_with_a_number_is_loaded_by_threads(context: Any) -> None:
    """The copy engine gives zeros alone. Triton's interpreter has no constants of bfloat16."""
    module = Convolution(4, 16, 32, 32, filling=1.5).forward()
    generated = generate(regions_of(module)["region"])
    assert not any("tiles.load" in call.source for recipe in generated.recipes for call in recipe.calls)
