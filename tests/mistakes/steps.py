"""Arguments of `dmc.compile`, and what a compiled step is asked for."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

import dmc
from tests.mistakes.table import FEATURES, batch, compiled, mistake

MISSING = r"does not exist: a step is no nn\.Module"


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(FEATURES, FEATURES)


@functools.cache
def _step() -> Any:
    return dmc.compile(
        _model(),
        loss=nn.functional.mse_loss,
        optimizer=dmc.optim.SGD(lr=0.1),
        example=batch(),
        verify=False,
        progress=False,
    )


@mistake(r"is a class, AdamW", r"torch\.optim\.AdamW\(model\.parameters\(\), lr", place="optimizer")
def optimizer_is_a_class() -> Any:
    return compiled(_model(), optimizer=torch.optim.AdamW)


@mistake(r"is a class, AdamW", r"dmc\.optim\.AdamW\(", place="optimizer")
def optimizer_is_a_class_of_dmc() -> Any:
    return compiled(_model(), optimizer=dmc.optim.AdamW)


@mistake(r"'adamw'", r"dmc\.optim\.AdamW", place="optimizer")
def optimizer_is_a_name() -> Any:
    return compiled(_model(), optimizer="adamw")


@mistake("not of this model", r"model\.parameters\(\)", place="optimizer")
def optimizer_of_another_model() -> Any:
    return compiled(_model(), optimizer=torch.optim.AdamW(_model().parameters()))


@mistake("is a scheduler", r"step\.scheduler", place="optimizer")
def scheduler_as_optimizer() -> Any:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return compiled(model, optimizer=torch.optim.lr_scheduler.StepLR(optimizer, 10))


@mistake("is not supported", r"dmc\.optim", place="LBFGS")
def optimizer_that_is_not_supported() -> Any:
    model = _model()
    return compiled(model, optimizer=torch.optim.LBFGS(model.parameters()))


@mistake("requires a gradient", "unfreeze", place="the model")
def nothing_to_train() -> Any:
    return compiled(_model().requires_grad_(False))


@mistake("is a class, MSELoss", r"MSELoss\(", place="loss")
def loss_is_a_class() -> Any:
    return compiled(_model(), loss=nn.MSELoss)


@mistake(r"does not exist", "cpu or cuda", place="target")
def target_that_does_not_exist() -> Any:
    return compiled(_model(), target="gpu")


@mistake("does not exist", "bf16-mixed", place="precision 'fp16'")
def precision_that_does_not_exist() -> Any:
    return compiled(_model(), precision="fp16")


@mistake("is that of a model", r'\{"model": model\.state_dict\(\)\}', place="state")
def loads_the_state_of_a_model() -> Any:
    return _step().load_state_dict(_model().state_dict())


@mistake(MISSING, "is the whole of it", place="Loss.backward")
def calls_backward_on_a_loss() -> Any:
    return _step()(*batch()).backward()


@mistake(MISSING, "evaluation=True", place="eval")
def puts_a_step_into_eval_mode() -> Any:
    return _step().eval()


@mistake(MISSING, "in the mode", place="train")
def puts_a_step_into_train_mode() -> Any:
    return _step().train()


@mistake(MISSING, "state_dict", place="parameters")
def asks_a_step_for_parameters() -> Any:
    return _step().parameters()


@mistake(MISSING, "leave this line out", place="zero_grad")
def sets_gradients_to_zero() -> Any:
    return _step().zero_grad()


@mistake(MISSING, "target=", place="to")
def moves_a_step() -> Any:
    return _step().to("cuda")


@mistake(r"expected f32\[8, 6\], got f32\[4, 6\]", "drop_last", place="input")
def another_shape() -> Any:
    return _step()(*(each[:4] for each in batch()))


@mistake("got f64", "float32", place="input")
def another_type() -> Any:
    return _step()(*(each.double() for each in batch()))


@mistake("expected 2 positional inputs, got 1", "call it as", place="call")
def without_targets() -> Any:
    return _step()(batch()[0])


@mistake("without evaluation", "evaluation=True", place="the step")
def evaluates_without_a_program() -> Any:
    return _step().evaluate(*batch())


def _staged(**changes: Any) -> Any:
    """Compiles a step of two layers, cut into two stages."""
    options: dict[str, Any] = {"cut": ["1"], "microbatches": 2, **changes}
    given = {name: options.pop(name) for name in ("accumulate",) if name in options}
    model = nn.Sequential(_model(), nn.Sequential(_model(), _model()))
    return compiled(model, plan=dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", **options), **given)


@mistake("change other state: only one of them 1.bias", "leave the pipeline out", place="plan")
def layer_of_one_shape_in_a_pipeline() -> Any:
    class Model(nn.Sequential):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return self[1](self[0](input)) if len(input) > 2 else self[0](input)

    short = torch.randn(4, FEATURES), torch.randn(4, FEATURES)
    plan = dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=["1"], microbatches=2)
    return compiled(Model(_model(), _model()), plan=plan, example=[batch(), short])


@mistake("is no list of modules", r'cut=\["1"\]', place="pipeline")
def cut_is_a_string() -> Any:
    return _staged(cut="1")


@mistake("2 cuts make 3 stages, but 'pp' has 2 ranks", "list 1 module that begins a stage", place="pipeline")
def a_cut_for_each_stage() -> Any:
    return _staged(cut=["0", "1"])


@mistake(r"'\*' matches 4 modules: 0, 1, 1\.0, …", r'by its whole path behind a dot: "\.0"', place="pipeline")
def cut_matches_many_modules() -> Any:
    return _staged(cut=["*"])


@mistake("'2' matches no module", "they are 0 to 1", place="pipeline")
def cut_behind_the_last_module() -> Any:
    return _staged(cut=["2"])


@mistake("has no number of micro-batches", "accumulate=8", place="pipeline")
def pipeline_without_micro_batches() -> Any:
    return _staged(microbatches=None)


@mistake(r"is 4, but pipeline\(.*\) has 2 micro-batches", "leave one of them out", place="accumulate")
def two_numbers_of_micro_batches() -> Any:
    return _staged(accumulate=4)


@mistake("cannot be read: No such file", r"cells such as 2F0", place="missing.csv")
def schedule_in_no_file() -> Any:
    return _staged(schedule="missing.csv")


@mistake("axis 'pp' is used by .* too", "an axis of its own", place="pipeline")
def pipeline_on_the_axis_of_data() -> Any:
    return dmc.plan(dmc.Mesh(pp=2)).use(dmc.plans.zero2("pp")).pipeline("pp", cut=["1"], microbatches=2)
