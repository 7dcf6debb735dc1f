"""`dmc.compile` and `dmc.load`: the compiler and its results, as PyTorch users see them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from dmc import dialect, pipeline, plans
from dmc._mlir import ir
from dmc.analysis.requests.keeping import write_keeping
from dmc.analysis.requests.plan import write_plan
from dmc.errors import DmcError, PlanError, StateError
from dmc.executors import STAGES, Builder, Executor, Settings
from dmc.forms import PLACED
from dmc.importer.capture.capture import Loss
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.lowering.ledger import ledger_of
from dmc.machine import machine_for
from dmc.mesh import Mesh
from dmc.observer import Observer
from dmc.plans import Plan, Recipe, ResolvedPlan
from dmc.program.tuning import Table
from dmc.runtime.arrays import to_array
from dmc.runtime.artifact import Artifact
from dmc.runtime.cpu import check_cpu
from dmc.runtime.settings import RunSettings
from dmc.runtime.state import StateDict
from dmc.runtime.step import Step
from dmc.runtime.world.launch import world_from_environment
from dmc.target import CUDA, Target, targets
from dmc.verification import Request, Verification, amount_of


class CompiledStep(Step):
    """A compiled training step whose state dictionaries hold torch tensors; see `dmc.runtime.Step`."""

    def state_dict(self) -> StateDict:
        """A copy of the state: {"model": tensors by name, "optimizer": by "<parameter>.<slot>", "step", "seed"}.

        `model.load_state_dict(step.state_dict()["model"])` puts the trained parameters into the PyTorch model: the keys
        are those of `model.state_dict()`. What these leave out is in "other"; see `dmc.runtime.state.StateDict`.
        """
        state = super().state_dict()
        for part in (state["model"], state["optimizer"], state.get("other", {})):
            part.update({name: _to_tensor(array) for name, array in part.items()})
        return state


def compile(
    model: nn.Module,
    *,
    optimizer: Any,
    example: Any,
    loss: Loss | None = None,
    precision: str = "fp32",
    accumulate: int = 1,
    mesh: Mesh | None = None,
    plan: Recipe | None = None,
    target: str = "cpu",
    executor: Executor = "static",
    machine: str | None = None,
    memory_cap: int | None = None,
    tuning: str | os.PathLike[str] | None = None,
    seed: int = 0,
    verify: bool | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    observer: Observer | None = None,
) -> CompiledStep:
    """Compiles one whole training step of `model` (forward, loss, backward, optimizer) ahead of time.

    loss: called with (model output, targets), returns a floating-point scalar or (scalar, auxiliary outputs); None
    where the model returns its own loss, as `transformers` models do when given labels.
    optimizer: SGD, Adam or AdamW of `dmc.optim`, or a `torch.optim` instance of these, taken over with its state.
    example: a tuple of positional inputs (with `loss`, the last is the targets) or a dictionary of keyword inputs. It
    fixes shapes and types; the model's mode (train or eval) is taken as it is.
    precision: "fp32" leaves types as they are; "bf16" converts parameters and inputs; "bf16-mixed" keeps f32 state and
    computes as `torch.autocast` does.
    accumulate: the batch is cut along dimension 0 into this many micro-batches whose gradients are averaged.
    mesh: the ranks that train together (`dmc.Mesh(dp=2)`); None for one. On a CPU all of them run in this process, as a
    rehearsal; on GPUs each runs in a process of its own, started by torchrun, mpirun or srun.
    plan: how tensors are placed on the mesh (`dmc.plan(mesh).use(dmc.plans.zero2("dp"))`), and what of the forward pass
    is kept for the backward pass (also without a mesh: `dmc.plan().recompute("h.*").keep("h.*.attn")`). The results do
    not depend on it.
    target: "cpu" (the processor of this machine), another processor by LLVM's name for it ("cpu:x86-64-v3"), "cuda", or
    both, "cpu+cuda", for one plan that runs on either; a step for another machine can be compiled here, but not run:
    use `compile_artifact`.
    executor: what executes the plan on a GPU: "static" replays it as one CUDA graph; "iree" runs it in IREE's runtime,
    in one lane, with IREE's code for every kernel, bitwise equal to a replay for target "cuda:iree". On a CPU, IREE's
    runtime executes it in either case.
    machine: the machine for which the step is scheduled (`dmc.machine.machine_names()`); by default the target's, with
    one device per rank of the mesh.
    memory_cap: bytes of device memory that a rank may use. Where it does not suffice, activations are computed again in
    the backward pass, with the same bits; a step that needs more even so is refused. Without a cap, the schedule spends
    no extra memory on overlap; with one that leaves room, movements may start earlier (the gathers of ZeRO-3).
    tuning: a table written by `dmc tune`, from which code for a GPU is chosen, before those that come with dmc.
    seed: the seed of dropout. The same seed gives the same bits.
    verify: whether to compare the first step with PyTorch eager's on the example: the loss, outputs, buffers, optimizer
    state, and gradients through the updated parameters. By default only where eager takes less than a tenth of compile
    time; otherwise a note says so. Neither the model nor the compiled step is affected.
    dump_dir: where to write the module in each form.
    observer: notified when stages begin and end (`dmc.observer.Observer`).

    Raises ImportFailure, naming operation, module and source line, for what cannot be compiled; PlanError for a plan
    that does not fit the mesh or the model; DmcError for an unsupported optimizer, precision or target, and for a step
    that needs more memory than the cap; ArtifactError for a processor that this machine does not have;
    VerificationError for a step that differs from eager's, naming the stage that changed its meaning.
    """
    artifact = compile_artifact(
        model,
        optimizer=optimizer,
        example=example,
        loss=loss,
        precision=precision,
        accumulate=accumulate,
        mesh=mesh,
        plan=plan,
        target=target,
        executor=executor,
        machine=machine,
        memory_cap=memory_cap,
        tuning=tuning,
        seed=seed,
        verify=verify,
        dump_dir=dump_dir,
        observer=observer,
    )
    check_cpu(artifact.requires, "the compiled step")
    world, settings = world_from_environment(os.environ), RunSettings.of(os.environ)
    return CompiledStep(artifact, world=world, settings=settings)


def compile_artifact(
    model: nn.Module,
    *,
    optimizer: Any,
    example: Any,
    loss: Loss | None = None,
    precision: str = "fp32",
    accumulate: int = 1,
    mesh: Mesh | None = None,
    plan: Recipe | None = None,
    target: str = "cpu",
    executor: Executor = "static",
    machine: str | None = None,
    memory_cap: int | None = None,
    tuning: str | os.PathLike[str] | None = None,
    seed: int = 0,
    verify: bool | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    observer: Observer | None = None,
) -> Artifact:
    """As `compile`, without opening the target's device: the way to compile for a GPU on a machine that has none.

    `artifact.write("gpt.dmc")` makes the file that `dmc.load` and `dmc.runtime.load` read.
    """
    chosen, kind = targets(target), _precision(precision)
    check_plan(mesh, plan)
    _check_settings(executor, memory_cap, tuning, chosen)
    _check_ranks(mesh, chosen, executor)
    machine = machine or machine_for(chosen[0].machine, 1 if mesh is None else mesh.size)
    settings = Settings(target, machine, memory_cap or 0, executor, os.fspath(tuning or ""))
    (observer := observer or Observer()).plan(("import", *STAGES, *(["verify"] if verify is not False else [])))
    begin, request = time.perf_counter(), Request.of(model, loss, optimizer, example, kind, accumulate, seed)
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        with observer.stage("import"):
            imported = import_step(model, loss, optimizer, example, kind, accumulate, seed, context)
        amount = amount_of(imported.module)
        resolved = state_plan(imported, plan, accumulate, chosen[0])
        built = Builder(imported.module, imported.signature, settings, observer, dump_dir).build()
        ledger = ledger_of(ir.Module.parse(built.forms[pipeline.stem(PLACED)]), resolved)
        artifact = built.artifact("+".join(each.name for each in chosen), kind.value, _arrays(imported), ledger)
        seconds = time.perf_counter() - begin
        Verification(request, artifact, verify, amount, seconds, observer, is_named=":" in target).run()
    return artifact


def load(path: str | os.PathLike[str], device: str | None = None, verify: bool = False) -> CompiledStep:
    """The step in a `.dmc` file, ready to train on; see `dmc.runtime.load`, which needs no torch."""
    return CompiledStep.load(path, device, verify)


def check_plan(mesh: Any, plan: Any) -> None:
    """Raises PlanError where mesh and plan do not match."""
    if mesh is None and plan is None:
        return
    if mesh is None and isinstance(plan, Recipe) and not isinstance(plan, Plan):
        plans.check_for_one_rank(plan.rules)
        return
    if mesh is None:
        raise PlanError("plan", "is given without its mesh", hint="pass mesh= as well")
    if not isinstance(mesh, Mesh):
        raise PlanError("mesh", f"expected a dmc.Mesh, got {type(mesh).__name__}", hint="such as mesh=dmc.Mesh(dp=2)")
    if not isinstance(plan, Plan):
        fact = "is given without a plan" if plan is None else f"comes with a {type(plan).__name__}, not with a plan"
        ready = f"ready plans are {', '.join(plans.READY)}"
        hint = f'pass plan=dmc.plan(mesh).use(dmc.plans.zero2("{mesh.axes[0]}")); {ready}'
        raise PlanError("mesh", fact, hint)
    if plan.mesh != mesh:
        raise PlanError("plan", f"is for {plan.mesh}, but the step is for {mesh}", hint="create it with dmc.plan(mesh)")


def _check_ranks(mesh: Mesh | None, chosen: tuple[Target, ...], executor: str) -> None:
    """Raises PlanError for a mesh on a GPU with IREE's runtime, which runs only one rank."""
    if executor == "iree" and mesh is not None and mesh.size > 1 and CUDA in chosen:
        fact = f"runs one rank only, not the {mesh.size} of {mesh}"
        raise PlanError("executor 'iree'", fact, hint='leave it out: the executor "static" runs any number of ranks')


def state_plan(imported: ImportedStep, plan: Recipe | None, accumulate: int, machine: Target) -> ResolvedPlan | None:
    """Annotates `imported` with what a plan requests; None where that is not about placement."""
    if plan is None:
        return None
    write_keeping(imported.module, plans.keeping(plan.rules, imported.modules))
    if not isinstance(plan, Plan):
        return None
    signature = imported.signature
    resolved = plans.resolve(plan, signature.state, imported.modules, signature.batch, accumulate)
    write_plan(imported.module, resolved, signature, machine.name)
    return resolved


def _check_settings(
    executor: str, memory_cap: Any, tuning: str | os.PathLike[str] | None, chosen: tuple[Target, ...]
) -> None:
    """Raises DmcError for an executor that does not exist, a cap that is not a positive integer, and a tuning table
    that is not one or that no target would use.
    """
    if executor not in get_args(Executor):
        raise DmcError(f"executor '{executor}'", "does not exist", hint=f"use one of {', '.join(get_args(Executor))}")
    if memory_cap is not None and not _is_size(memory_cap):
        fact = f"is {memory_cap!r}; it must be a positive integer number of bytes"
        raise DmcError("memory_cap", fact, hint="pass an int, such as 80 * 2**30, or leave it out")
    if tuning is not None:
        _check_tuning(Path(tuning), chosen)


def _check_tuning(tuning: Path, chosen: tuple[Target, ...]) -> None:
    Table.read(tuning)
    if not any(target.has_kernels for target in chosen):
        names = " and ".join(target.name for target in chosen)
        fact = f"chooses among dmc's kernels for GPUs; the step is for {names}"
        raise DmcError(f"tuning table '{tuning}'", fact, hint='leave it out, or compile for target="cuda"')


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _precision(name: str) -> Precision:
    try:
        return Precision(name)
    except ValueError:
        names = ", ".join(kind.value for kind in Precision)
        raise DmcError(f"precision '{name}'", "does not exist", hint=f"use one of {names}") from None


def _arrays(imported: ImportedStep) -> tuple[Any, ...]:
    specs = imported.signature.state
    bf16 = {spec.name for spec in specs if spec.dtype == "bf16"}
    state = {name: tensor.bfloat16() if name in bf16 else tensor for name, tensor in imported.state.items()}
    return tuple(to_array(state[spec.name], spec, spec.name, StateError) for spec in specs)


def _to_tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
