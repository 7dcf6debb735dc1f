"""`dmc.compile` and `dmc.load`: the compiler and its results, as PyTorch users see them."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, ParamSpec, TypeVar, overload

from torch import nn

from dmc import dialect, plans
from dmc._mlir import ir
from dmc.arguments import (
    check_ranks,
    check_settings,
    checked_mesh,
    precision_named,
    tuning_table,
    with_verbs,
)
from dmc.cache import Cache, using
from dmc.compilation import Compilation, Evaluation
from dmc.compiled_step import CompiledStep, TorchState
from dmc.errors import DmcError
from dmc.executors import Executor, Settings
from dmc.importer.capture.capture import Loss
from dmc.lowering.iree.compiler import check_target
from dmc.machine import machine as machine_named
from dmc.machine import machine_for
from dmc.mesh import Mesh
from dmc.observer import Observer
from dmc.outside import Outside, forget
from dmc.phases import Phase
from dmc.plans import Plan, Recipe
from dmc.progress import shown
from dmc.requests import asked
from dmc.runtime.files.artifact import TRAINING, Artifact
from dmc.runtime.loading import File, check_alone
from dmc.runtime.process.cpu import check_cpu
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.sessions.open_session import check_device
from dmc.runtime.state.saved_state import read_state
from dmc.runtime.world.launch import World, world_from_environment
from dmc.search.automatic import found_plan
from dmc.target import Target, targets

Given = ParamSpec("Given")
Result = TypeVar("Result")


def compile_artifact(
    model: nn.Module,
    *,
    optimizer: Any = None,
    example: Any = None,
    loss: Loss | None = None,
    phases: Mapping[str, Phase] | None = None,
    precision: str = "fp32",
    accumulate: int | Sequence[int] | None = None,
    mesh: Mesh | None = None,
    plan: Recipe | Literal["auto"] | None = None,
    target: str = "cpu",
    executor: Executor = "static",
    machine: str | None = None,
    memory_cap: int | None = None,
    tuning: str | os.PathLike[str] | None = None,
    seed: int = 0,
    evaluation: Evaluation = False,
    evaluation_example: Any = None,
    verify: bool | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    observer: Observer | None = None,
) -> Artifact:
    """As `compile`, without opening the target's device: the way to compile for a GPU on a machine that has none.

    `artifact.write("gpt.dmc")` makes the file that `dmc.load` and `dmc.runtime.load` read.
    """
    plan = _chosen(**locals())
    check_settings(executor, memory_cap, evaluation)
    chosen, kind, mesh = targets(target), precision_named(precision), checked_mesh(mesh, plan)
    check_ranks(mesh, chosen, executor)
    machine = machine or machine_for(chosen[0].machine, 1 if mesh is None else mesh.size)
    settings = Settings(target, machine, memory_cap or 0, executor, tuning_table(tuning, chosen))
    given = {"optimizer": optimizer, "example": example, "loss": loss, "accumulate": accumulate}
    requests, beside = asked(model, phases, given, evaluation, evaluation_example, plan, kind, seed, verify)
    forget(model)
    for each in requests.values():
        _check_early(model, each.loss, plan, machine, chosen if ":" in target else ())
    with _watched(progress, observer) as seen, using(Cache.of(os.environ)), ir.Context() as own, ir.Location.unknown():
        _note_mode(model, seen)
        dialect.load(own)
        with with_verbs(model, plan, kind, chosen, executor, mesh):
            return Compilation(requests, beside, evaluation, plan, settings, verify, seen, dump_dir).artifact(own)


def _taking_arguments_of(
    other: Callable[Given, Any],
) -> Callable[[Callable[..., Result]], Callable[Given, Result]]:
    """The decorated function is called like `other`, and gets all of its arguments by name, with their defaults."""
    signature = inspect.signature(other)

    def decorate(function: Callable[..., Result]) -> Callable[Given, Result]:
        @functools.wraps(function)
        def call(*positional: Given.args, **named: Given.kwargs) -> Result:
            try:
                bound = signature.bind(*positional, **named)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            bound.apply_defaults()
            return function(**bound.arguments)

        returned = inspect.signature(function).return_annotation
        vars(call)["__signature__"] = signature.replace(return_annotation=returned)
        return call

    return decorate


@_taking_arguments_of(compile_artifact)
def compile(**given: Any) -> CompiledStep:
    """Compiles one whole training step of `model` (forward, loss, backward, optimizer) ahead of time.

    loss: called with (model output, targets), returns a floating-point number or (number, auxiliary outputs); None
    where the model returns its own loss, as `transformers` models do when given labels. If the model returns several
    outputs and the loss is neither the first nor named "loss", pass its index or key: `loss=1` for (logits, loss).
    optimizer: one of `dmc.optim`, or a `torch.optim` instance of such a kind or several, taken over with their state.
    example: a tuple of positional inputs (with `loss`, the last is the targets) or a dictionary of keyword inputs, or a
    list of these, one for each shape of batches, whose programs share the state in memory. It fixes shapes and types;
    the model's mode (train or eval) is taken as it is, with a note for eval.
    phases: in place of loss, optimizer and example, several of each in turn over one state, by name, as a GAN's:
    `phases={"critic": dmc.Phase(critic_loss, example, optimizer), "generator": …}`. Each is a program of its own, with
    its own batch, counter and random numbers: `step.phases["critic"](real, noise)`.
    precision: "fp32" leaves types as they are; "bf16" converts parameters and inputs; "bf16-mixed" keeps f32 state and
    computes as `torch.autocast` does.
    accumulate: the batch is cut along dimension 0 into this many micro-batches whose gradients are averaged; a list has
    a number for each example. By default 1, or as many as the plan's pipeline has.
    mesh: the ranks that train together (`dmc.Mesh(dp=2)`); by default that of `plan`, or one rank. On a CPU all of them
    run in this process, as a rehearsal; on GPUs each runs in a process of its own, started by torchrun, mpirun or srun.
    plan: how tensors are placed on the mesh (`dmc.plan(mesh).use(dmc.plans.zero2("dp"))`), what of the forward pass is
    kept for the backward pass, and whether optimizer state waits in host memory (also without a mesh:
    `dmc.plan().recompute("h.*").keep("h.*.attn").offload_optimizer()`). The results do not depend on it. "auto" is the
    fastest plan that is found for all devices of `machine`, by simulation; a note has its lines.
    target: "cpu" (the processor of this machine), another processor by LLVM's name for it ("cpu:x86-64-v3"), "cuda", or
    both, "cpu+cuda", for one plan that runs on either; a step for another machine can be compiled here, but not run:
    use `compile_artifact`.
    executor: what executes the plan on a GPU: "static" replays it as one CUDA graph; "iree" runs it in IREE's runtime,
    in one lane, with IREE's code for every kernel, bitwise equal to a replay for target "cuda:iree". On a CPU, IREE's
    runtime executes it in either case.
    machine: the machine for which the step is scheduled (`dmc.machine.machine_names()`); by default the target's, with
    one device per rank of the mesh.
    memory_cap: bytes of device memory that a rank may use. Where it does not suffice, activations wait in host memory,
    or are computed again in the backward pass, with the same bits; a step that needs more even so is refused. On CUDA,
    large logits are computed in chunks under any cap, whose sums are rounded otherwise. Without a cap, the schedule
    spends no extra memory on overlap; with one that leaves room, movements may start earlier (the gathers of ZeRO).
    tuning: a table written by `dmc tune`, from which code for a GPU is chosen, before those that come with dmc.
    seed: the seed of dropout and of all random numbers that the model draws. The same seed gives the same bits.
    evaluation: whether to compile `step.evaluate` too: the loss of such a batch, whole, in eval mode, over the same
    state in memory. A function instead of True is computed in place of the loss, as `lambda logits, targets:
    (cross_entropy(logits, targets), logits)` for the logits too; for a model with its own loss, it takes the model's
    output alone. evaluation_example: a batch that it takes, or a list of those; by default `example`.
    verify: whether to compare the first three steps with PyTorch eager's on the example: the loss, outputs, buffers,
    optimizer state, and gradients through the updated parameters. By default as many as eager takes in less than a
    tenth of compile time, three or one; otherwise a note says so. Neither the model nor the compiled step is affected.
    dump_dir: where to write the module in each form.
    progress: whether to show stages and times on stderr, of rank 0: a bar on a terminal, lines elsewhere. By default
    elsewhere a line every few seconds, the first after less than two; False shows nothing.
    observer: notified when stages begin and end, instead of any display (`dmc.observer.Observer`).

    Raises ImportFailure, naming operation, module and source line, for what cannot be compiled; PlanError for a plan
    that does not fit the mesh or the model; DmcError for an unsupported optimizer, precision or target, for a GPU that
    this machine does not have, before anything is compiled, and for a step that needs more memory than the cap;
    ArtifactError for a processor that this machine does not have; VerificationError for a step that differs from
    eager's, naming the stage that changed its meaning.
    """
    given["plan"] = _chosen(**given)
    world, settings = world_from_environment(os.environ), RunSettings.of(os.environ)
    _check_here(given["target"], given["executor"], checked_mesh(given["mesh"], given["plan"]), world)
    artifact = compile_artifact(**given)
    check_cpu(artifact.requires, "the compiled step")
    phases: Mapping[str, Phase] = given["phases"] or {}
    losses = [each.loss for each in phases.values()] or [given["loss"]]
    optimizers = {name: each.optimizer for name, each in phases.items()} or {TRAINING: given["optimizer"]}
    return CompiledStep(artifact, world=world, settings=settings, outside=Outside(given["model"], losses, optimizers))


@overload
def load(
    path: File, device: str | None = None, verify: bool = False, *, state_only: Literal[False] = False
) -> CompiledStep:
    """The step, ready to train on."""


@overload
def load(path: File, device: str | None = None, verify: bool = False, *, state_only: Literal[True]) -> TorchState:
    """Its state alone."""


def load(
    path: File, device: str | None = None, verify: bool = False, *, state_only: bool = False
) -> CompiledStep | TorchState:
    """The step in a `.dmc` file, ready to train on; see `dmc.runtime.load`, which needs no torch.

    A `.dmc` file is a program: load only files that you trust. state_only: only its tensors are read, nothing in it is
    run, so the file, or the directory of checkpoints, may be anybody's.
    """
    if not state_only:
        return CompiledStep.load(path, device, verify)
    check_alone(device, verify)
    saved = read_state(path)
    return TorchState(saved.specs, saved.arrays)


def _check_early(model: nn.Module, loss: Any, plan: Recipe | None, machine: str, named: tuple[Target, ...]) -> None:
    """Raises DmcError for what no later stage accepts, before anything is traced. named: targets whose processor is."""
    machine_named(machine)
    for each in named:
        check_target(each)
    if not isinstance(plan, Plan):
        return
    roots = [("", model), *([("loss.", loss)] if isinstance(loss, nn.Module) else [])]
    shapes = {
        f"{prefix}{name}": tuple(tensor.shape)
        for prefix, root in roots
        for tensors in (root.named_parameters, root.named_buffers)
        for name, tensor in tensors(remove_duplicate=False)
    }
    modules = dict(model.named_modules())
    plans.check_layers(
        plan, {path: tuple(kind.__name__ for kind in type(own).__mro__) for path, own in modules.items()}
    )
    plans.check_patterns(plan, shapes, modules)


def _check_here(target: str, executor: str, mesh: Mesh | None, world: World | None) -> None:
    """Raises DmcError, before anything is compiled, where this machine has no device to run the step on."""
    targets(target)
    try:
        check_device(target, executor, 1 if mesh is None else mesh.size, world)
    except DmcError as error:
        hint = f'{error.hint}; to compile here for another machine, dmc.compile_artifact(…).write("step.dmc")'
        raise DmcError(error.place, error.fact, hint) from error


def _chosen(
    *, plan: Recipe | Literal["auto"] | None, progress: bool | None, observer: Observer | None, **given: Any
) -> Recipe | None:
    """The plan, or the one that is found. given: the other arguments of `dmc.compile`."""
    if plan != "auto":
        return plan
    with _watched(progress, observer) as seen:
        return found_plan(seen, **given)


def _note_mode(model: nn.Module, observer: Observer) -> None:
    if not model.training:
        observer.note(
            "the model is in eval mode, so the step trains it without dropout, and with batch statistics as they are; "
            "call model.train() before dmc.compile to train it as usual"
        )


def _watched(progress: bool | None, observer: Observer | None) -> AbstractContextManager[Observer]:
    """The user's observer, or one that shows progress. Raises DmcError where both are given."""
    if observer is not None and progress:
        fact = "is given beside an observer, which takes the place of the display"
        raise DmcError("progress", fact, hint="leave one of them out")
    world = world_from_environment(os.environ)
    is_first = world is None or world.rank == 0
    return shown(progress if is_first else False) if observer is None else nullcontext(observer)
