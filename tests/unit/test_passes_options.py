"""Textual options and pipeline text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc._mlir import ir
from dmc.errors import DmcError, PipelineError
from dmc.passes.base import REGISTRY, Pass, PassManagerOptions, parse_pipeline, run_passes
from dmc.rewriting.text import split


@dataclass(frozen=True)
class _Sample(Pass):
    """A pass with an option of each type.

    Only its first line is a summary.
    """

    name = "dm-test-sample"
    flag: bool = False
    max_count: int = 10
    scale: float = 1.0
    mode: Literal["fast", "exact"] = "fast"
    sizes: tuple[int, ...] = ()
    limit: int | None = None
    text: str = ""

    def run(self, module: ir.Module) -> None:
        module.operation.attributes["test.sample"] = ir.StringAttr.get(str(self))


@dataclass(frozen=True)
class _Required(Pass):
    """A pass with an option that has no default."""

    name = "dm-test-required"
    form: str


@dataclass(frozen=True)
class _Raising(Pass):
    """A pass that fails."""

    name = "dm-test-raising"

    def run(self, module: ir.Module) -> None:
        raise DmcError(module.body.operations[0].operation, "cannot be handled", "change it")


@dataclass(frozen=True)
class _Breaking(Pass):
    """A pass that leaves invalid IR behind."""

    name = "dm-test-breaking"

    def run(self, module: ir.Module) -> None:
        module.body.operations[0].operation.attributes["function_type"] = ir.TypeAttr.get(ir.IndexType.get())


@pytest.fixture(scope="module", autouse=True)
def _tidy_registry() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    yield
    for name in [name for name in REGISTRY if name.startswith("dm-test-")]:
        del REGISTRY[name]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", _Sample()),
        ("flag", _Sample(flag=True)),
        ("flag=true max_count=3", _Sample(flag=True, max_count=3)),
        ("flag=0 max-count=3", _Sample(flag=False, max_count=3)),
        ("scale=2.5e-3 mode=exact", _Sample(scale=0.0025, mode="exact")),
        ("sizes=1,2,3", _Sample(sizes=(1, 2, 3))),
        ("sizes={1,2} limit=none", _Sample(sizes=(1, 2), limit=None)),
        ("limit=4  text='a b'", _Sample(limit=4, text="a b")),
        ('text="x,y}"', _Sample(text="x,y}")),
    ],
)
def test_options_become_fields(options: str, expected: Pass) -> None:
    assert parse_pipeline(f"dm-test-sample{{{options}}}") == (expected,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dm-test-sample{count=1}", "dm-test-sample: no option 'count'"),
        ("dm-test-sample{flag=maybe}", "option 'flag' expects bool, got 'maybe'"),
        ("dm-test-sample{max_count=1.5}", "option 'max_count' expects int, got '1.5'"),
        ("dm-test-sample{max_count=-1}", "option 'max_count' expects int, got '-1'\n  hint: integers are counts"),
        ("dm-test-sample{max_count}", "option 'max_count' has no value"),
        ("dm-test-sample{mode=slow}", "option 'mode' expects one of fast, exact, got 'slow'"),
        ("dm-test-sample{sizes=1,x}", "option 'sizes' expects a list of int, got '1,x'"),
        ("dm-test-sample{max_count=1 max-count=2}", "option 'max-count' is given twice"),
        ("dm-test-sample(flag)", "expected options in braces, got '(flag)'"),
        ("dm-test-required", "option 'form' is missing"),
        ("dm-test-samples", "did you mean dm-test-sample?"),
        ("dm-no-such-thing-at-all", "dm-no-such-thing-at-all: no such pass"),
        ("func.func(cse,dm-test-sample)", "dm-test-sample: runs on the module, not inside 'func.func'"),
        ("canonicalize,(cse)", "'(cse)' is not a pass"),
        ("builtin.module(canonicalize", "')' is missing"),
        ("canonicalize)", "unmatched ')'"),
        ("dm-test-sample{text='a}", "''' is missing"),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as refusal:
        parse_pipeline(text)
    assert message in str(refusal.value)


def test_ours_and_upstreams_elements_are_told_apart() -> None:
    text = "builtin.module( dm-test-sample{sizes=1,2} , canonicalize{max-iterations=2} ,func.func(cse,canonicalize))"
    expected = (_Sample(sizes=(1, 2)), "canonicalize{max-iterations=2}", "func.func(cse,canonicalize)")
    assert parse_pipeline(text) == expected


@given(
    st.builds(
        _Sample,
        flag=st.booleans(),
        max_count=st.integers(min_value=0),
        scale=st.floats(allow_nan=False),
        mode=st.sampled_from(["fast", "exact"]),
        sizes=st.lists(st.integers(min_value=0)).map(tuple),
        limit=st.none() | st.integers(min_value=0),
        text=st.text(alphabet="ab c,{}()=-_'", max_size=12) | st.text(alphabet='a,"', max_size=6),
    )
)
def test_a_pass_prints_as_it_is_read(instance: Pass) -> None:
    assert parse_pipeline(f"cse,{instance},cse") == ("cse", instance, "cse")


@given(st.lists(st.text(alphabet="abc", min_size=1), max_size=5))
def test_split_undoes_join(parts: list[str]) -> None:
    assert list(split(",".join(f"{part}{{x,y}}" for part in parts), ",")) == [f"{part}{{x,y}}" for part in parts]


def test_a_second_owner_of_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="pass name taken: dm-test-sample"):
        type("Other", (Pass,), {"name": "dm-test-sample"})


def test_a_name_outside_the_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="not a pass name: sample"):
        type("Other", (Pass,), {"name": "sample"})


def test_summary_and_options_are_described() -> None:
    assert _Sample.summary() == "A pass with an option of each type."
    assert _Sample.describe_options()[1:4] == (
        "max_count: int = 10",
        "scale: float = 1.0",
        "mode: one of fast, exact = fast",
    )
    assert _Required.describe_options() == ("form: str",)


FUNCTION = """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %unused = arith.negf %a : tensor<4xf32>
  return %a : tensor<4xf32>
}"""


def test_passes_run_in_order(context: ir.Context, filecheck: Callable[[object], None]) -> None:
    module = ir.Module.parse(FUNCTION, context)
    run_passes(module, parse_pipeline("dm-test-sample{flag},func.func(canonicalize),dm-test-sample{max_count=2}"))
    # CHECK: module attributes {test.sample = "dm-test-sample{max_count=2}"}
    # CHECK-NOT: negf
    # CHECK: return
    filecheck(module)


def test_what_a_pass_raises_comes_through(context: ir.Context) -> None:
    module = ir.Module.parse(FUNCTION, context)
    with pytest.raises(DmcError) as raised:
        run_passes(module, (_Raising(), "canonicalize"))
    assert str(raised.value) == 'loc("-":2:1): func.func: cannot be handled\n  hint: change it'
    assert "negf" in str(module)


def test_invalid_ir_after_a_pass_is_found(context: ir.Context) -> None:
    with pytest.raises(ir.MLIRError, match="function_type"):
        run_passes(ir.Module.parse(FUNCTION, context), (_Breaking(),))


def test_verification_can_be_turned_off(context: ir.Context) -> None:
    run_passes(ir.Module.parse(FUNCTION, context), (_Breaking(),), PassManagerOptions(verify_each=False))


def test_unknown_upstream_text_is_refused_before_anything_runs(context: ir.Context) -> None:
    module = ir.Module.parse(FUNCTION, context)
    with pytest.raises(PipelineError, match="'nonesuch' does not refer to a registered pass"):
        run_passes(module, (_Sample(), "nonesuch"))
    assert "test.sample" not in str(module)
