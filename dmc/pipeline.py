"""The compiler on one screen: its stages in order, each with its passes and the form it must leave behind."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from dmc._mlir import ir
from dmc.errors import DmcError, PipelineError
from dmc.forms import FORMS, IMPORTED, LOWERED, Form, form_named, verify_form
from dmc.observer import Observer
from dmc.passes.base import Element, PassManagerOptions, run_passes
from dmc.passes.inline_composites import InlineComposites
from dmc.passes.tie_state import TieState


@dataclass(frozen=True)
class Stage:
    """Passes, and the form in which they leave the module."""

    form: Form
    passes: tuple[Element, ...]


STAGES = (
    Stage(IMPORTED, ()),  # made by the importer
    Stage(LOWERED, (InlineComposites(), "canonicalize", "cse", TieState())),
)


def stages_between(from_form: str | None, to_form: str | None) -> tuple[Stage, ...]:
    """The stages from the one that leaves `from_form` to the one that leaves `to_form`, both included.

    None stands for the first and for the last form. Raises PipelineError for a form that does not exist or that lies
    before `from_form`.
    """
    first = 0 if from_form is None else FORMS.index(form_named(from_form))
    last = len(FORMS) - 1 if to_form is None else FORMS.index(form_named(to_form))
    if last < first:
        raise PipelineError(None, f"form '{to_form}' comes before form '{from_form}'", "the compiler goes forward only")
    return STAGES[first : last + 1]


def stage_names(from_form: str | None = None, to_form: str | None = None) -> tuple[str, ...]:
    """What `run` reports to an observer: one name per stage. The first is the check of the module handed in."""
    return tuple(stage.form.name for stage in stages_between(from_form, to_form))


def run(
    module: ir.Module,
    from_form: str | None = None,
    to_form: str | None = None,
    *,
    observer: Observer | None = None,
    dump_dir: Path | None = None,
    options: PassManagerOptions = PassManagerOptions(),
) -> None:
    """Carries `module`, in place, from one form to another; each form on the way is verified.

    `observer` is told of each stage of `stage_names`; it is not told the plan, which its owner may want to extend.
    `dump_dir` receives the module in each form, with locations: `01-imported.mlir`, `02-lowered.mlir`. Raises DmcError
    from a pass or verifier of ours and MLIRError from upstream's; a note on either says how to replay the stage.
    """
    observer = observer or Observer()
    last_dump: tuple[Path, Form] | None = None
    for position, stage in enumerate(stages_between(from_form, to_form)):
        path = None if dump_dir is None else dump_path(dump_dir, stage.form)
        with observer.stage(stage.form.name):
            if position == 0 and path is not None:
                # Dumped before it is checked, so that a module that fails its first check can be looked at.
                last_dump = (_dump(module, path), stage.form)
            try:
                if position > 0:
                    run_passes(module, stage.passes, options)
                verify_form(module, stage.form)
            except (DmcError, ir.MLIRError) as error:
                error.add_note(_replay(last_dump, stage.form))
                raise
            if position > 0 and path is not None:
                last_dump = (_dump(module, path), stage.form)


def dump_path(dump_dir: Path, form: Form) -> Path:
    """Where the dump of a form lies: `01-imported.mlir` for the first."""
    return dump_dir / f"{FORMS.index(form) + 1:02}-{form.name}.mlir"


def _dump(module: ir.Module, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(module.operation.get_asm(enable_debug_info=True), encoding="utf-8")
    return path


def _replay(last_dump: tuple[Path, Form] | None, failing: Form) -> str:
    if last_dump is None:
        return "to replay this stage, compile with a dump directory"
    path, form = last_dump
    return f"replay: dmc-opt {shlex.quote(str(path))} --from={form.name} --to={failing.name}"
