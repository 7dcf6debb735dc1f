"""`torch.export` of an objective, with its failures as ours."""

from __future__ import annotations

import logging
import pkgutil
import random
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import sympy
import torch
from torch._subclasses import FakeTensor
from torch.fx.proxy import TracerBase

from dmc.errors import DmcError, ImportFailure
from dmc.importer import origin
from dmc.importer.capture.devices import on_the_cpu
from dmc.importer.capture.eager_strides import eager_strides
from dmc.importer.capture.experts import own_experts
from dmc.importer.capture.failures import OWN, failure
from dmc.importer.capture.flex import own_flex_attention
from dmc.importer.capture.objective import MODEL, Objective, Seen
from dmc.importer.python.functions import Functions
from dmc.importer.torch_internals import caller, recount_users


def export(objective: Objective, batch: tuple[torch.Tensor, ...], parts: int = 1) -> torch.export.ExportedProgram:
    """The graph of `objective` on `batch`, whose `parts` are sent to experts apart.

    Raises ImportFailure naming the place that cannot be exported.

    A model that asks whether it is compiled may take a way that does not run: then it is told that it is not.
    """
    try:
        return _exported(objective, batch, parts)
    except ImportFailure as told:
        if not isinstance(told.__cause__, OWN):
            raise
        objective.seen = Seen()
        with mock.patch("torch.compiler.is_compiling", _no), mock.patch("torch.compiler.is_exporting", _no):
            try:
                return _exported(objective, batch, parts)
            except ImportFailure:
                raise told from told.__cause__


def _check_assertions(program: torch.export.ExportedProgram) -> None:
    """Export keeps assertions about numbers, but for `<=` and `>=` of those that are not whole."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    shapes = next((each.fake_mode.shape_env for each in values if isinstance(each, FakeTensor)), None)
    asserted = shapes.deferred_runtime_asserts.values() if shapes is not None else ()
    for each in (each.expr for found in asserted for each in found):
        if isinstance(each, sympy.Le | sympy.Ge) and any(str(symbol).startswith("zuf") for symbol in each.free_symbols):
            raise ImportFailure(
                "the model",
                "asserts <= or >= of a number that is not whole, which export loses",
                hint="assert < or >, or torch._assert_async(x <= limit) of the tensor",
            )


def _no() -> bool:
    return False


def _exported(objective: Objective, batch: tuple[torch.Tensor, ...], parts: int) -> torch.export.ExportedProgram:
    try:
        with warnings.catch_warnings(), _whole_stacks(), _quiet_refusals(), _no_other_randomness(), _later_checks():
            # The objective itself checks which attributes may be assigned.
            warnings.filterwarnings("ignore", "The tensor attributes? .*(was|were) assigned during export")
            warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True to a scalar")
            watch = objective.seen.watch
            with (
                on_the_cpu(),
                eager_strides(),
                own_experts(parts),
                own_flex_attention() as used,
                _idle_conversions(),
                watch.on_guard(),
                Functions(watch),
            ):
                program = torch.export.export(objective, batch, strict=False)
            if used:  # Lists of blocks, which nothing reads.
                program.graph.eliminate_dead_code()
            _check_assertions(program)
            recount_users(program.graph_module)
            return program
    except DmcError as error:
        if error.place:
            raise
        raise ImportFailure(str(origin.of_exception(error, objective, MODEL)), error.fact, error.hint) from error
    # Export raises many exception types, and so do models.
    except Exception as error:
        raise failure(error, objective, batch) from error


@contextmanager
def _whole_stacks() -> Generator[None]:
    """Lets export record whole stacks: by default it keeps only frames named `forward`, and loses helper functions."""
    with mock.patch.object(TracerBase, "_filter_traceback_frames", lambda _, stack: stack):
        yield


# They describe at length what the error that follows says: symbols of the graph, or how a shape was computed.
_LOGS = ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor")


@contextmanager
def _quiet_refusals() -> Generator[None]:
    """Keeps PyTorch from printing its partial graph, symbols and tracebacks: the error that follows names the place."""
    levels = {log: log.level for log in map(logging.getLogger, _LOGS)}
    try:
        for log in levels:
            log.setLevel(logging.CRITICAL)
        with mock.patch("torch.export._trace.print", create=True):
            yield
    finally:
        for log, level in levels.items():
            log.setLevel(level)


@contextmanager
def _later_checks() -> Generator[None]:
    """Lets `torch.distributions` check parameters and samples in each step: what raises in eager is an assertion."""

    def asserted(valid: torch.Tensor) -> bool:
        torch.ops.aten._assert_async(valid.all())
        return True

    with mock.patch("torch._is_all_true", asserted):
        yield


# What the methods of a module convert it to.
_CONVERSIONS: dict[str, tuple[Any, ...]] = {
    "to": (),
    "cpu": ("cpu",),
    "float": (torch.float32,),
    "double": (torch.float64,),
    "half": (torch.float16,),
    "bfloat16": (torch.bfloat16,),
}


@contextmanager
def _idle_conversions() -> Generator[None]:
    """Lets a module be, that `forward` converts to the type and device that it has: PyTorch would replace its
    parameters."""
    with ExitStack() as patches:
        for name, wanted in _CONVERSIONS.items():
            convert = getattr(torch.nn.Module, name)
            patches.enter_context(mock.patch.object(torch.nn.Module, name, _unless_idle(convert, wanted)))
        yield


def _unless_idle(convert: Callable[..., Any], wanted: tuple[Any, ...]) -> Callable[..., Any]:
    def converted(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        own = {each.dtype for each in (*module.parameters(), *module.buffers()) if each.is_floating_point()}
        is_idle = all(_has(own, each) for each in (*wanted, *args, *kwargs.values()))
        return module if is_idle else convert(module, *args, **kwargs)

    return converted


def _has(types: set[torch.dtype], wanted: Any) -> bool:
    """Whether tensors of these types on the CPU are as `wanted`, a type or a device."""
    if isinstance(wanted, torch.dtype):
        return types <= {wanted}
    return isinstance(wanted, str | torch.device) and torch.device(wanted).type == "cpu"


# They decide what PyTorch draws, but not what a step does.
_STATES = ("torch.manual_seed", "torch.seed", "torch.set_rng_state", "torch.random.fork_rng")


def _refused(name: str) -> Callable[..., Any]:
    """The function of this name, for PyTorch itself alone."""
    function = pkgutil.resolve_name(name)

    def called(*args: Any, **kwargs: Any) -> Any:
        frame = caller(1)
        if frame is None or not frame.f_globals["__name__"].startswith("torch."):
            fact = f"calls {name}, on which a step's random numbers do not depend"
            raise ImportFailure("", fact, hint="leave it out: dmc.compile(…, seed=…) decides what a step draws")
        return function(*args, **kwargs)

    return called


@contextmanager
def _no_other_randomness() -> Generator[None]:
    """Raises ImportFailure where the trace itself draws or seeds random numbers, which would be the same in each step;
    restores the generators.
    """
    python, numpy, pytorch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        with ExitStack() as patches:
            for name in _STATES:
                patches.enter_context(mock.patch(name, _refused(name)))
            yield
        drawn = {
            "random": random.getstate() != python,
            "numpy.random": not all(map(np.array_equal, np.random.get_state(), numpy)),
            "torch": not torch.equal(torch.get_rng_state(), pytorch),
        }
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(pytorch)
    names = [name for name, is_drawn in drawn.items() if is_drawn]
    if names:
        raise ImportFailure(
            "the model or its loss",
            f"draws or seeds random numbers of {' and '.join(names)} that would be the same in each step",
            hint="draw by operations of PyTorch on the model's tensors, or outside the step, and pass them as inputs",
        )
