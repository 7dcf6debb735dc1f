"""Failures of `torch.export`, told by what the user did: a fact, the place, and a way out."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from dmc.errors import ImportFailure
from dmc.importer import advice, origin
from dmc.importer.capture.devices import NAME_NONE
from dmc.importer.capture.objective import MODEL, Objective
from dmc.importer.forward.chosen.values import WAY_OUT
from dmc.importer.python.known import KnownValues

# What Python raises itself, in a model or a loss that does not run in eager either.
OWN = (AttributeError, ImportError, LookupError, NameError, TypeError, ZeroDivisionError)

_EAGER = "run the model and its loss on the example in PyTorch eager to see it there"
_SIZE = "makes a tensor whose size depends on data", advice.FIXED_SIZE
_OF_MASKS = "depends on how many elements a mask chooses, which only the running step knows"
_DECISIONS = ("__bool__", "equal", "allclose", "is_nonzero")
_WHOLE = ("__int__", "__index__")
_NESTED = "_nested_"
_SIZES = re.compile(r"size|shape|dim|broadcast|elements", re.IGNORECASE)


@dataclass(frozen=True)
class _Kind:
    """Failures whose "Type: message" matches `pattern`; "{message}" and groups of the pattern may occur in the fact."""

    pattern: str
    fact: str
    hint: str


_KINDS = (
    _Kind(
        r"devices, (meta and|\w+ and meta)",
        "computes with a tensor on the device 'meta' that is neither a parameter nor a buffer",
        "make it outside of torch.device('meta'), as a buffer on the CPU, or in `forward`, on the device of an input",
    ),
    _Kind(
        r"same device|not linked with support for|not compiled with CUDA|NVIDIA driver|No CUDA GPUs",
        "{message}",
        NAME_NONE,
    ),
    _Kind(
        r"leaf Variable that requires grad",
        "writes into a parameter in place, which PyTorch refuses while it records gradients",
        "write under torch.no_grad(), or make it a buffer (register_buffer)",
    ),
    _Kind(
        r"Cannot view a tensor|view size is not compatible",
        "{message}",
        "call .reshape(…) instead of .view(…), or .contiguous() before it",
    ),
    _Kind(
        r"_apply\(\): Couldn't swap",
        "converts a module to another type or device in `forward`",
        "convert it before dmc.compile, or compile with precision=…; in `forward` convert what it is given: "
        "x.to(weight.dtype)",
    ),
    _Kind(r"\.numpy\(\) is not supported", f"{advice.LEAVES} Tensor.numpy()", advice.HOST),
    _Kind(
        r"Expected dtype int|expected scalar type (Long|Int)|of type (Long|Int)",
        "{message}",
        "convert indices and classes: targets.long()",
    ),
    _Kind(
        r"data is not allocated yet",
        "makes a tensor of the numbers of others, as torch.tensor([a, b]) does",
        "use torch.stack([a, b]), or x.clone(), which keep gradients, too",
    ),
    _Kind(
        r"data pointer",
        "asks for the address of a tensor, as a kernel that is not PyTorch's does",
        advice.OWN_OPERATION,
    ),
    _Kind(
        r"no fake impl registered for <CustomOpDef\((?P<op>[^)]*)\)>",
        "calls an operator that is not PyTorch's: {op}",
        advice.OWN_OPERATION,
    ),
    _Kind(
        r"Legacy autograd function",
        "calls an autograd.Function as an object, which PyTorch refuses",
        "make forward(ctx, …) and backward(ctx, …) static methods, and call Name.apply(…)",
    ),
    _Kind(_NESTED, "makes a nested tensor, which has no fixed shape", "pad to one size, and pass a mask"),
    _Kind(r"Sym(Float|Int|Bool)|FakeTensor\.__", *advice.taken(is_float=True)),
    _Kind(
        r"FakeTensor",
        "{message}",
        "compute what needs a tensor's numbers outside the step, and pass tensors of fixed shapes and masks",
    ),
)


def failure(error: Exception, objective: Objective, batch: tuple[Tensor, ...]) -> ImportFailure:
    """The error to raise for what export raised."""
    place = str(origin.of_exception(error, objective, MODEL))
    if isinstance(error, GuardOnDataDependentSymNode):
        told = _looked_at(error)
        if objective.seen.watch.choices.made and told == _SIZE:
            return ImportFailure(place, f"{_asking(error)}{_OF_MASKS}", WAY_OUT)
        return ImportFailure(place, *told)
    if isinstance(error, DynamicOutputShapeException):
        return ImportFailure(place, f"{_op(error)} returns a tensor whose shape depends on data", advice.FIXED_SIZE)
    if isinstance(error, DataDependentOutputException):
        return ImportFailure(place, *advice.taken(is_float=True))
    if isinstance(error, UnsupportedOperatorException) and _NESTED not in str(error):
        return ImportFailure(place, f"{_op(error)} cannot be exported", advice.SIMPLER)
    lines = str(error).strip().splitlines()
    # Its own kinds of errors PyTorch raises where tensors have no numbers; in eager they are these.
    name = RuntimeError.__name__ if type(error).__module__.startswith("torch.") else type(error).__name__
    message = ": ".join([name, *lines[:1]])
    if objective.seen.watch.turned and "Cannot view a tensor" in message:
        fact = "writes into a view of a tensor whose shape is changed in place, as by t_(), after the view was taken"
        return ImportFailure(place, fact, "turn it by a view of its own (y = y.t()), or take the other view after that")
    for kind in _KINDS:
        if (found := re.search(kind.pattern, message)) is not None:
            named = {name: text or "" for name, text in found.groupdict().items()}
            return ImportFailure(place, kind.fact.format(message=message, **named), kind.hint)
    return ImportFailure(place, message, _EAGER if isinstance(error, OWN) else _in_eager(message, batch))


def _looked_at(error: GuardOnDataDependentSymNode) -> tuple[str, str]:
    """Fact and hint where Python looks at a number. Export calls those that are not whole "zuf0"."""
    codes = [frame.tb_frame for frame in origin.frames(error.__traceback__)]
    asked = [each.f_locals["function"].__name__ for each in codes if each.f_code is KnownValues.call.__code__]
    if any(name in _DECISIONS for name in asked):
        return advice.DECIDES, advice.CHOOSE
    last = max((index for index, each in enumerate(codes) if not origin.is_library(each.f_code.co_filename)), default=0)
    if not asked and any(each.f_code is torch.SymBool.__bool__.__code__ for each in codes[last + 1 : last + 2]):
        return advice.DECIDES, advice.CHOOSE
    if not asked and codes[last + 1 :] and "zuf" not in str(error):
        return _SIZE
    return advice.taken("zuf" in str(error) and not any(name in _WHOLE for name in asked))


def _asking(error: Exception) -> str:
    """The function of PyTorch that the user's line calls, as the subject of a sentence; "" for an attribute."""
    frames = [each.tb_frame for each in origin.frames(error.__traceback__)]
    own = [place for place, each in enumerate(frames) if not origin.is_library(each.f_code.co_filename)]
    for each in frames[max(own, default=-1) + 1 :]:
        function = each.f_locals.get("func", each.f_locals.get("function"))
        name = getattr(function, "__name__", "" if function is not None else each.f_code.co_name)
        if name and not name.startswith("_") and name != "bool_":
            return f"{name} "
    return ""


def _op(error: Exception) -> str:
    return origin.op_name(getattr(error, "func", "an operation"))


def _in_eager(message: str, batch: tuple[Tensor, ...]) -> str:
    if not _SIZES.search(message):
        return _EAGER
    shapes = ", ".join(str(list(each.shape)) for each in batch)
    return f"{_EAGER}; the tensors of the example are of the shapes {shapes}"
