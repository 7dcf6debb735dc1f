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
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.proxy import TracerBase

from dmc.errors import DmcError, ImportFailure
from dmc.importer import origin
from dmc.importer.capture.eager_strides import eager_strides
from dmc.importer.capture.objective import Objective, Seen
from dmc.importer.python.functions import Functions
from dmc.importer.torch_internals import caller, recount_users


def export(objective: Objective, batch: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    """The graph of `objective` on `batch`. Raises ImportFailure naming the place that cannot be exported.

    A model that asks whether it is compiled may take a way that does not run: then it is told that it is not.
    """
    try:
        return _exported(objective, batch)
    except ImportFailure as failure:
        if not isinstance(failure.__cause__, _OWN):
            raise
        objective.seen = Seen()
        with mock.patch("torch.compiler.is_compiling", _no), mock.patch("torch.compiler.is_exporting", _no):
            try:
                return _exported(objective, batch)
            except ImportFailure:
                raise failure from failure.__cause__


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


def _exported(objective: Objective, batch: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    try:
        with warnings.catch_warnings(), _whole_stacks(), _quiet_refusals(), _no_other_randomness(), _later_checks():
            # The objective itself checks which attributes may be assigned.
            warnings.filterwarnings("ignore", "The tensor attributes? .*(was|were) assigned during export")
            with eager_strides(), objective.seen.watch.on_guard(), Functions(objective.seen.watch):
                program = torch.export.export(objective, batch, strict=False)
            _check_assertions(program)
            recount_users(program.graph_module)
            return program
    except DmcError as error:
        if error.place:
            raise
        place = origin.of_exception(error, objective.model)
        raise ImportFailure(str(place), error.fact, error.hint) from error
    # Export raises many exception types for unsupported models; each is re-raised with the place it names.
    except Exception as error:
        place = origin.of_exception(error, objective.model)
        if isinstance(error, _OWN):
            raise _own_failure(str(place), error) from error
        op = getattr(error, "func", None)
        what = origin.op_name(op) if op is not None else "the model"
        if isinstance(error, GuardOnDataDependentSymNode):
            what = "a Python number taken from a tensor (by .item(), int(), a slice or a condition)"
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ImportFailure(
            str(place),
            f"{what} cannot be exported: {first}",
            hint="the step is compiled once for fixed shapes: values may not decide shapes or Python control flow; "
            "use masks and torch.where instead, and index_select and index_copy_ with a tensor of places",
        ) from error


# What Python raises itself, in a model or a loss that does not run in eager either.
_OWN = (AttributeError, ImportError, LookupError, NameError, TypeError, ZeroDivisionError)


def _own_failure(place: str, error: Exception) -> ImportFailure:
    fact = f"{type(error).__name__}: {str(error).strip()}"
    hint = "run the model and its loss on the example in PyTorch eager to see it there"
    if FakeTensor.__name__ in fact:
        hint = "compute what needs a tensor's numbers outside the step, and pass tensors of fixed shapes and masks"
    return ImportFailure(place, fact, hint)


@contextmanager
def _whole_stacks() -> Generator[None]:
    """Lets export record whole stacks: by default it keeps only frames named `forward`, and loses helper functions."""
    with mock.patch.object(TracerBase, "_filter_traceback_frames", lambda _, stack: stack):
        yield


@contextmanager
def _quiet_refusals() -> Generator[None]:
    """Keeps export from printing its partial graph and symbols when data decides control flow: the error that follows
    names the place.
    """
    log = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with mock.patch("torch.export._trace.print", create=True):
            yield
    finally:
        log.setLevel(level)


@contextmanager
def _later_checks() -> Generator[None]:
    """Lets `torch.distributions` check parameters and samples in each step: what raises in eager is an assertion."""

    def asserted(valid: torch.Tensor) -> bool:
        torch.ops.aten._assert_async(valid.all())
        return True

    with mock.patch("torch._is_all_true", asserted):
        yield


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
