"""Pipelines that mix dmc's passes with upstream's."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dmc._mlir import ir, passmanager
from dmc.errors import PipelineError
from dmc.passes.where import Where
from dmc.rewriting.passes import REGISTRY, Pass
from dmc.rewriting.text import split
from dmc.stages import has_stages, stages_of

__all__ = [
    "NESTED",
    "REGISTRY",
    "Element",
    "On",
    "Pass",
    "PassManagerOptions",
    "Step",
    "chosen",
    "parse_pipeline",
    "run_passes",
]

_ELEMENT = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)\s*(?P<rest>.*)$", re.DOTALL)
_ROOT = re.compile(r"builtin\.module\s*\((?P<inside>.*)\)$", re.DOTALL)


# A pass of dmc, or upstream pipeline text such as `canonicalize` or `func.func(cse)`.
Step = Pass | str


@dataclass(frozen=True)
class On:
    """A pass for some targets only, and the one for others, if any."""

    where: Where
    step: Step
    otherwise: Step | None = None

    def __str__(self) -> str:
        return str(self.step)


# One element of a pipeline.
Element = Step | On


@dataclass(frozen=True)
class PassManagerOptions:
    """Options for running a pipeline; reports go to stderr, as written by MLIR."""

    verify_each: bool = True
    print_ir_after_all: bool = False
    print_debug_info: bool = False
    print_generic: bool = False
    timing: bool = False


# For what a pass runs itself: the module is verified after the pass.
NESTED = PassManagerOptions(verify_each=False)


def parse_pipeline(text: str) -> tuple[Step, ...]:
    """`builtin.module(dm-x{opt=1},canonicalize,func.func(cse))`, or the list inside it, as pipeline elements.

    Upstream's elements remain text, which MLIR checks in `run_passes`. Raises PipelineError for a pass of dmc that does
    not exist or is nested below the module, and for invalid options.
    """
    root = _ROOT.match(text.strip())
    return tuple(_element(item) for item in split(root["inside"] if root else text, ","))


def run_passes(
    module: ir.Module, elements: Iterable[Element], options: PassManagerOptions = PassManagerOptions()
) -> None:
    """Runs a pipeline on `module`, for its targets.

    It is one MLIR PassManager, so that upstream's verification and reports cover dmc's passes, too; for a module of
    stages (`dmc.stages`) one for each, but for passes on whole modules.

    Raises PipelineError before anything runs if upstream rejects its text; exceptions of dmc's passes propagate
    unchanged; a failing upstream pass or verifier raises MLIRError with its diagnostics.
    """
    steps = tuple(chosen(module, elements))
    if not has_stages(module) and not any(map(_is_whole, steps)):
        _manager(module, steps, options).run(module.operation)
        return
    # What upstream rejects is told before anything runs.
    _manager(module, steps, options)
    for is_whole, group in groupby(steps, _is_whole):
        own = tuple(group)
        with nullcontext([module]) if is_whole else stages_of(module) as parts:
            for part in parts:
                _manager(part, own, options).run(part.operation)


def _is_whole(step: Step) -> bool:
    return isinstance(step, Pass) and step.is_whole


def _manager(module: ir.Module, steps: Iterable[Step], options: PassManagerOptions) -> passmanager.PassManager:
    manager = passmanager.PassManager("builtin.module", context=module.context)
    for step in steps:
        _add(manager, module, step)
    manager.enable_verifier(options.verify_each)
    if options.print_ir_after_all:
        manager.enable_ir_printing(
            enable_debug_info=options.print_debug_info, print_generic_op_form=options.print_generic
        )
    if options.timing:
        manager.enable_timing()
    return manager


def chosen(module: ir.Module, elements: Iterable[Element]) -> Iterator[Step]:
    """What a pipeline runs for the targets of `module`."""
    for element in elements:
        if not isinstance(element, On):
            yield element
        elif element.where.of(module):
            yield element.step
        elif element.otherwise is not None:
            yield element.otherwise


def _element(text: str) -> Step:
    match = _ELEMENT.match(text)
    if match is None:
        raise PipelineError(None, f"'{text}' is not a pass", "write names separated by commas")
    name, rest = match["name"], match["rest"].strip()
    if name in REGISTRY:
        return REGISTRY[name].from_text(_braced(name, rest))
    if name.startswith("dm-"):
        raise PipelineError(name, "no such pass", _suggestion(name))
    if "(" in rest and (nested := re.search(r"(?<![\w-])dm-[\w-]+", rest)):
        raise PipelineError(nested[0], f"runs on the module, not inside '{name}'", "write it at the top level")
    return text


def _braced(name: str, text: str) -> str:
    if not text:
        return ""
    if text[0] + text[-1] != "{}":
        raise PipelineError(name, f"expected options in braces, got '{text}'", f"write {name}{{option=value}}")
    return text[1:-1]


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, REGISTRY, n=1)
    return f"did you mean {close[0]}?" if close else "dmc-opt --list-passes shows every pass"


def _add(manager: passmanager.PassManager, module: ir.Module, element: Step) -> None:
    if isinstance(element, Pass):
        manager.add(_callable(module, element), name=type(element).__name__, argument=str(element))
        return
    try:
        manager.add(element)
    except ValueError as error:
        fact = re.search(r"(?:error|Parser>): (.*)", str(error))
        hint = "dmc-opt --list-passes shows the passes of dmc; every other name is upstream MLIR's"
        raise PipelineError(element, fact[1] if fact else str(error), hint) from error


def _callable(module: ir.Module, element: Pass) -> Callable[[ir.Operation, Any], None]:
    def run(_op: ir.Operation, _handle: Any) -> None:
        element.run(module)

    return run
