"""The arguments of `dmc.compile`, checked before anything is traced."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn
from torch._subclasses import FakeTensor
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from dmc import plans
from dmc.errors import DmcError, ImportFailure, PlanError
from dmc.executors import Executor
from dmc.importer.capture.precisions import precisions
from dmc.importer.capture.registered import describe
from dmc.importer.forward.precision import Precision
from dmc.mesh import Mesh
from dmc.plans import Plan, Recipe
from dmc.plans.rules import Pipeline
from dmc.program.tuning import Table
from dmc.target import CUDA, CUDA_BY_IREE, Target


def check_model(model: Any, loss: Any, verify: bool | None = None, is_called: bool = True) -> None:
    """Raises ImportFailure for a model that is no module, or is one of TorchScript, and for a module, of the model or
    the loss, that has to run before its parameters have a shape; DmcError where a comparison is asked for of a model
    without numbers. is_called: whether it needs a `forward`.
    """
    if not isinstance(model, nn.Module):
        hint = "wrap a function in a class of torch.nn.Module that holds its parameters, and whose `forward` calls it"
        raise ImportFailure("model", f"expected a torch.nn.Module, got {describe(model)}", hint)
    if is_called and getattr(model.forward, "__func__", None) is nn.Module.forward:
        hint = "give its class a method `forward`, which computes the output"
        raise ImportFailure("the model", f"{type(model).__name__} has no method `forward`", hint)
    for path, module in model.named_modules():
        _check_kind(f"module '{path}'" if path else "the model", module)
    _check_registered("", model)
    if isinstance(loss, nn.Module):
        _check_registered("loss.", loss)
    _check_verifiable(model, verify)


def _check_kind(place: str, module: nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        hint = "pass the original module, before torch.jit.script or torch.jit.trace"
        raise ImportFailure(place, "is a TorchScript module, which cannot be compiled", hint)
    if "quantized" in type(module).__module__.split(".") and "torch" in type(module).__module__:
        hint = "train the original model, before it is quantized, and quantize what was trained"
        raise ImportFailure(place, f"is quantized ({type(module).__name__}), and cannot be trained", hint)


def _check_registered(prefix: str, root: nn.Module) -> None:
    for kind, named in (("parameter", root.named_parameters()), ("buffer", root.named_buffers())):
        for name, tensor in named:
            _check_data(f"{kind} '{prefix}{name}'", tensor)


def _check_data(place: str, tensor: torch.Tensor) -> None:
    """Raises ImportFailure for a tensor without numbers."""
    if is_lazy(tensor):
        fact = "has no shape yet: it is of a lazy module, which makes it when it first runs"
        hint = "run the model once on a batch before it is compiled and its optimizer created: model(inputs)"
        raise ImportFailure(place, fact, hint)
    if isinstance(tensor, FakeTensor):
        hint = "make the model, and the batch, outside of FakeTensorMode"
        raise ImportFailure(place, "is a fake tensor, which has no numbers", hint)


def _check_numbers(place: str, tensor: torch.Tensor) -> None:
    _check_data(place, tensor)
    if tensor.is_meta:
        fact = "is on the device 'meta', where tensors have no numbers"
        raise ImportFailure(place, fact, hint="make it on the CPU: only what a model registers may be there")


def check_meaning(loss: Any, example: Any, seed: Any) -> None:
    """Raises DmcError for a loss that is neither a function nor a place in the model's output, for no example or one
    that is no batch, for a seed that is not an integer of 64 bits, and where PyTorch makes all tensors on meta."""
    if torch.get_default_device().type == "meta":
        fact = "is called inside of torch.device('meta'), where nothing that the compiler makes would have numbers"
        raise ImportFailure("dmc.compile", fact, hint="make the model there, and compile it behind the block")
    is_place = isinstance(loss, int | str) and not isinstance(loss, bool)
    if not (loss is None or is_place or callable(loss)):
        fact = f"is {loss!r}; it must be a function, or the index or key of the loss in the model's output"
        raise DmcError(
            "loss", fact, hint="leave it out where the model's output is its loss, the first or named 'loss'"
        )
    if isinstance(loss, type):
        raise DmcError("loss", f"is a class, {loss.__name__}", hint=f"pass an object of it: loss={loss.__name__}(…)")
    for path, leaf in pytree.tree_leaves_with_path(example):
        if isinstance(leaf, torch.Tensor):
            _check_numbers(f"example{pytree.keystr(path)}", leaf)
    check_seed(seed)


def checked_mesh(mesh: Any, plan: Any) -> Mesh | None:
    """The mesh of a step, that of its plan if none is given. Raises PlanError where mesh and plan do not match."""
    if not isinstance(plan, Recipe | None):
        fact = f"expected a plan, got {type(plan).__name__}"
        raise PlanError("plan", fact, hint='such as plan=dmc.plan(dmc.Mesh(dp=2)).use(dmc.plans.zero2("dp"))')
    if mesh is None and isinstance(plan, Plan):
        return plan.mesh
    if mesh is None:
        plans.check_for_one_rank(() if plan is None else plan.rules)
        return None
    if not isinstance(mesh, Mesh):
        raise PlanError("mesh", f"expected a dmc.Mesh, got {type(mesh).__name__}", hint="such as mesh=dmc.Mesh(dp=2)")
    if not isinstance(plan, Plan):
        fact = "is given without a plan" if plan is None else f"comes with a {type(plan).__name__}, not with a plan"
        ready = f"ready plans are {', '.join(plans.READY)}"
        hint = f'pass plan=dmc.plan(mesh).use(dmc.plans.zero2("{mesh.axes[0]}")); {ready}'
        raise PlanError("mesh", fact, hint)
    if plan.mesh != mesh:
        hint = "leave mesh= out: the plan has its own"
        raise PlanError("plan", f"is for {plan.mesh}, but the step is for {mesh}", hint)
    return mesh


def with_verbs(
    model: nn.Module,
    plan: Recipe | None,
    precision: Precision,
    chosen: tuple[Target, ...],
    executor: str,
    mesh: Mesh | None,
) -> AbstractContextManager[None]:
    """The context in which modules compute in the types that the verbs of the plan say. Raises PlanError for a verb
    that is wrong, or without effect on such a step."""
    rules = () if plan is None else plan.rules
    on = tuple(CUDA_BY_IREE if executor == "iree" and each.has_kernels else each for each in chosen)
    facts = plans.StepFacts(precision.value, on, 1 if mesh is None else mesh.size)
    plans.check_verbs(rules, [path for path, _ in model.named_modules()], facts)
    return precisions(model, rules, torch.bfloat16 if precision is Precision.BF16 else None)


def micro_batches(accumulate: Any, plan: Recipe | None) -> Any:
    """`accumulate`, or where that is not given the micro-batches of a plan's pipeline, or 1. Raises PlanError where the
    two differ, and for a pipeline whose micro-batches neither says."""
    rule = next((rule for rule in (() if plan is None else plan.rules) if isinstance(rule, Pipeline)), None)
    if rule is None:
        return 1 if accumulate is None else accumulate
    if accumulate is None and rule.microbatches is None:
        hint = "a pipeline runs a batch in parts: .pipeline(…, microbatches=8), or accumulate=8"
        raise PlanError(str(rule), "has no number of micro-batches", hint)
    counts: Sequence[Any] = accumulate if isinstance(accumulate, Sequence) else (accumulate,)
    if accumulate is not None and any(count != (rule.microbatches or count) for count in counts):
        fact = f"is {accumulate}, but {rule} has {rule.microbatches} micro-batches"
        raise PlanError("accumulate", fact, hint="they are the same number; leave one of them out")
    return rule.microbatches if accumulate is None else accumulate


def check_examples(
    example: Any, accumulate: Any, evaluation: Any, evaluated: Any
) -> tuple[list[Any], list[int], list[Any]]:
    """Those of training, with their numbers of micro-batches, and those of evaluation. Raises DmcError where there are
    none, or are no batches.
    """
    examples = _several("example", example)
    counts = _counts(accumulate, len(examples))
    if evaluated is None:
        return examples, counts, [] if evaluation is False else examples
    if evaluation is False:
        fact, hint = "is given for a step that is not evaluated", "pass evaluation=True as well"
        raise DmcError("evaluation_example", fact, hint)
    return examples, counts, _several("evaluation_example", evaluated)


def _several(place: str, example: Any) -> list[Any]:
    if not isinstance(example, list):
        return [example]
    examples: list[Any] = example
    if not examples:
        raise DmcError(place, "is an empty list", hint="pass one example, or a list with one for each shape")
    if wrong := [each for each in examples if not isinstance(each, tuple | Mapping)]:
        fact = f"is a list, which means several shapes, with one program for each, but holds {describe(wrong[0])}"
        hint = (
            "pass one batch as a tuple, such as tuple(batch); a list holds tuples or dictionaries, one for each shape"
        )
        raise DmcError(place, fact, hint)
    return examples


def _counts(accumulate: Any, examples: int) -> list[int]:
    """How many micro-batches each example has. Raises DmcError for a list of another length."""
    if not isinstance(accumulate, Sequence):
        return [accumulate] * examples
    counts: list[int] = [*accumulate]
    if len(counts) != examples:
        fact = f"has {len(counts)} numbers, and the examples are {examples}"
        raise DmcError("accumulate", fact, hint="pass one number for all, or a list with one for each example")
    return counts


def check_seed(seed: Any) -> None:
    """Raises DmcError for a seed that is not an integer of 64 bits."""
    if not (_is_integer(seed) and -(2**63) <= seed < 2**63):
        fact = f"is {seed!r}; it must be an integer that fits 64 bits"
        raise DmcError("seed", fact, hint="pass an int, such as seed=1")


def _check_verifiable(model: nn.Module, verify: bool | None) -> None:
    """Raises DmcError where a comparison with eager is asked for, and the model has no numbers."""
    name = next((name for name, tensor in model.named_parameters() if tensor.is_meta), None)
    if verify and name is not None:
        fact = f"compares with PyTorch eager's step, and parameter '{name}' is on the device 'meta', without numbers"
        raise DmcError("verify=True", fact, hint="leave it out, or verify the model with small sizes on the CPU")


def check_settings(executor: str, memory_cap: Any, evaluation: Any) -> None:
    """Raises DmcError for an executor that does not exist, a cap that is not a positive integer, and an evaluation that
    is no function."""
    if not (isinstance(evaluation, bool) or callable(evaluation)):
        fact = f"is {evaluation!r}; it must be True, False or a function"
        raise DmcError("evaluation", fact, hint="True evaluates the loss of training, whatever that is")
    if executor not in get_args(Executor):
        raise DmcError(f"executor '{executor}'", "does not exist", hint=f"use one of {', '.join(get_args(Executor))}")
    if memory_cap is not None and not _is_size(memory_cap):
        fact = f"is {memory_cap!r}; it must be a positive integer number of bytes"
        raise DmcError("memory_cap", fact, hint="pass an int, such as 80 * 2**30, or leave it out")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _is_integer(value: Any) -> bool:
    """Also one of numpy's."""
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def precision_named(name: str) -> Precision:
    """Raises DmcError for a name of none."""
    try:
        return Precision(name)
    except ValueError:
        names = ", ".join(kind.value for kind in Precision)
        raise DmcError(f"precision '{name}'", "does not exist", hint=f"use one of {names}") from None


def check_ranks(mesh: Mesh | None, chosen: tuple[Target, ...], executor: str) -> None:
    """Raises PlanError for a mesh on a GPU with IREE's runtime, which runs only one rank."""
    if executor == "iree" and mesh is not None and mesh.size > 1 and CUDA in chosen:
        fact = f"runs one rank only, not the {mesh.size} of {mesh}"
        raise PlanError("executor 'iree'", fact, hint='leave it out: the executor "static" runs any number of ranks')


def tuning_table(tuning: str | os.PathLike[str] | None, chosen: tuple[Target, ...]) -> Table | None:
    """The table in a file. Raises DmcError where the file holds none, or no target would use it."""
    if tuning is None:
        return None
    table = Table.read(Path(tuning))
    if not any(target.has_kernels for target in chosen):
        names = " and ".join(target.name for target in chosen)
        fact = f"chooses among dmc's kernels for GPUs; the step is for {names}"
        raise DmcError(f"tuning table '{os.fspath(tuning)}'", fact, hint='leave it out, or compile for target="cuda"')
    return table
