"""What `precision` cannot do of a module is refused, and a rule with an effect on any module is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc._mlir import ir
from dmc.analysis.requests.verbs import write_verbs
from dmc.errors import PlanError
from dmc.importer.capture.precisions import precisions
from dmc.plans import StepFacts, check_verbs
from dmc.plans.verbs import KeepApart
from dmc.target import targets


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def encode(self, x: Tensor) -> Tensor:
        return self.inner(x).exp()


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.weight = nn.MultiheadAttention(8, 2), nn.ParameterList([nn.Parameter(torch.ones(8))])

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0] * self.weight[0]


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.o, self.a = _Encoder(), nn.Linear(8, 8), _Attention()
        self.norms = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))])

    def forward(self, x: Tensor) -> Tensor:
        return self.norms[0](self.a(functional.linear(self.e.encode(x), self.o.weight)))


def _run(plan: dmc.plans.Recipe, dtype: torch.dtype | None = None) -> None:
    model = _Model()
    with precisions(model, plan.rules, dtype):
        model(torch.ones(4, 8))


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("e", "call it in the model's forward, or narrow the path"),
        ("o", "call it in the model's forward, or narrow the path"),
        ("a.attention.out_proj", "name the module that uses it, such as 'a.attention', or narrow the path"),
        ("a.weight", "name the module that uses it, such as 'a', or narrow the path"),
    ],
)
def test_a_module_whose_forward_is_not_called_computes_in_no_other_type(path: str, way_out: str) -> None:
    with pytest.raises(PlanError) as caught:
        _run(dmc.plan().precision(f".{path}", "bf16"))
    fact = f'precision(".{path}", "bf16"): has no effect on \'{path}\': its forward is not called'
    assert str(caught.value).partition("\n")[0] == fact
    assert caught.value.hint == way_out
    _run(dmc.plan().precision(".e.inner|.a", "bf16"))


@pytest.mark.parametrize(("said", "dtype", "kept"), [("bf16", None, "float32"), ("fp32", torch.bfloat16, "bfloat16")])
def test_buffers_keep_their_types(said: str, dtype: torch.dtype | None, kept: str) -> None:
    for pattern in (".norms", "norms.0", "norms.0.1"):
        rule = dmc.plans.recipe("").precision(pattern, "bf16" if said == "bf16" else "fp32")
        with pytest.raises(PlanError, match=f"buffer 'norms.0.1.running_mean' keeps its type {kept}") as caught:
            _run(dmc.plan().use(rule), dtype)
        assert '"bf16-mixed"' in caught.value.hint
    _run(dmc.plan().precision("norms.0.1", "bf16-mixed"))
    _run(dmc.plan().precision("norms.0", "bf16").precision("norms.0.1", "bf16-mixed"))


@pytest.mark.parametrize(
    "said",
    [
        [("enc", "bf16"), ("enc.ln|dec.ln", "fp32")],
        [("h.1", "bf16"), ("h.*.ln", "bf16")],
        [("h.1", "bf16"), ("h.0", "bf16")],
    ],
)
def test_a_rule_with_an_effect_on_one_module_is_none_without(said: Sequence[tuple[str, str]]) -> None:
    plan = dmc.plan()
    for pattern, dtype in said:
        plan = plan.precision(pattern, "bf16" if dtype == "bf16" else "fp32")
    paths = ("enc", "enc.ln", "dec", "dec.ln", "h", "h.0", "h.0.ln", "h.1", "h.1.ln")
    check_verbs(plan.rules, paths, StepFacts("fp32", targets("cpu"), 1))


@pytest.mark.usefixtures("context")
def test_an_update_is_no_part_of_a_module() -> None:
    for label, is_refused in (("o#aten.mul, update", True), ("o#aten.mul, backward", False)):
        module = ir.Module.parse(
            "module { func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> {"
            f'%y = math.exp %x : tensor<2xf32> loc("{label}")'
            "return %y : tensor<2xf32> } }"
        )
        if not is_refused:
            write_verbs(module, [KeepApart("o")])
            continue
        with pytest.raises(PlanError, match="the step computes nothing in these modules") as caught:
            write_verbs(module, [KeepApart("o")])
        assert "whose forward is called" in caught.value.hint
