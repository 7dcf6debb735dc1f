"""The compiler on one screen: its stages in order, each with its passes and the form it must leave behind.

The bodies of kernels that IREE compiles then go through `dmc.lowering.kernels.rewrites`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dmc._mlir import ir
from dmc.errors import DmcError, PipelineError
from dmc.forms import IMPORTED, PLACED, PLANNED, SCHEDULED, Form, form_named, verify_form
from dmc.memo import remembering
from dmc.observer import Observer
from dmc.passes.base import Element, On, PassManagerOptions, run_passes
from dmc.passes.placed.exchange_sums import ExchangeSums
from dmc.passes.placed.fold_collectives import FoldCollectives
from dmc.passes.placed.gather_again import GatherAgain
from dmc.passes.placed.isolate_draws import IsolateDraws
from dmc.passes.placed.lower_reshard import LowerReshard
from dmc.passes.placed.narrow_collectives import NarrowCollectives
from dmc.passes.placed.pad_uneven import PadUneven
from dmc.passes.placed.partition import Partition
from dmc.passes.placed.propagate_sharding import PropagateSharding
from dmc.passes.planned.join_stages import JoinStages
from dmc.passes.planned.lower_to_plan import LowerToPlan
from dmc.passes.planned.place_events import PlaceEvents
from dmc.passes.planned.plan_memory import PlanMemory
from dmc.passes.scheduled.assign_queues import AssignQueues
from dmc.passes.scheduled.async_ import Async
from dmc.passes.scheduled.bucket import Bucket
from dmc.passes.scheduled.copy_ports import CopyPorts
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.passes.scheduled.keep import Keep
from dmc.passes.scheduled.name_kernels import NameKernels
from dmc.passes.scheduled.offload import Offload
from dmc.passes.scheduled.pace_messages import PaceMessages
from dmc.passes.scheduled.schedule import SPREAD, Schedule
from dmc.passes.scheduled.select_kernels import SelectKernels
from dmc.passes.scheduled.split_stages import SplitStages
from dmc.passes.scheduled.stage_inputs import StageInputs
from dmc.passes.scheduled.tensors.absorb_casts import AbsorbCasts
from dmc.passes.scheduled.tensors.channels_last import ChannelsLast
from dmc.passes.scheduled.tensors.chunk_head import ChunkHead
from dmc.passes.scheduled.tensors.drop_empty import DropEmpty
from dmc.passes.scheduled.tensors.flatten_collectives import FlattenCollectives
from dmc.passes.scheduled.tensors.inline_composites import InlineComposites
from dmc.passes.scheduled.tensors.merge_losses import MergeLosses
from dmc.passes.scheduled.tensors.merge_products import MergeProducts
from dmc.passes.scheduled.tensors.pack_concats import PackConcats
from dmc.passes.scheduled.tensors.pack_masks import PackMasks
from dmc.passes.scheduled.tensors.pad_classes import PadClasses
from dmc.passes.scheduled.tensors.recompute import Recompute
from dmc.passes.scheduled.tensors.share_panels import SharePanels
from dmc.passes.scheduled.tensors.unroll_loops import UnrollLoops
from dmc.passes.where import CPU, GPU, GPUS, IREE
from dmc.printer import printed


@dataclass(frozen=True)
class Stage:
    """Passes, and the form in which they leave the module."""

    form: Form
    passes: tuple[Element, ...]


STAGES = (
    Stage(IMPORTED, ()),  # made by the importer
    Stage(
        PLACED,
        (
            IsolateDraws(),
            PadUneven(),
            PropagateSharding(),
            Partition(),
            LowerReshard(),
            FoldCollectives(),
            NarrowCollectives(),
            On(GPU, ExchangeSums()),
            GatherAgain(),
        ),
    ),
    Stage(
        SCHEDULED,
        (
            SplitStages(),
            On(GPU, AbsorbCasts()),
            On(GPU, InlineComposites(keep_whole=True), InlineComposites()),
            "canonicalize",
            On(GPU, ChunkHead()),
            On(GPU, PadClasses()),
            "cse",
            On(GPU, MergeProducts()),
            On(GPUS, ChannelsLast()),
            UnrollLoops(),
            DropEmpty(),
            On(GPU, MergeLosses()),
            FlattenCollectives(),
            On(GPUS, PackMasks()),
            On(GPU, Recompute()),
            On(IREE, PackConcats()),
            On(CPU, SharePanels()),
            FormKernels(),
            On(GPU, StageInputs()),
            CopyPorts(),
            Async(),
            Bucket(preserve_overlap=True),
            SelectKernels(),
            AssignQueues(),
            Offload(),
            Keep(),
            *SPREAD,  # dm-hoist-start, dm-sink-wait
            # Behind dm-sink-wait, which would keep what is sent until the end.
            PaceMessages(),
            Schedule(),
            # Any other order may leave movements of two communicators unordered.
            AssignQueues(),
            NameKernels(),
        ),
    ),
    Stage(PLANNED, (PlanMemory(), LowerToPlan(), JoinStages(), PlaceEvents())),
)

# Called with the name of a form, or of a point between two forms, and the module, which it must not change.
Witness = Callable[[str, ir.Module], None]
# Passes after which a witness is shown the module, and the name of that point.
WITNESSED = {str(InlineComposites(keep_whole=True)): "opened", str(ChannelsLast()): "simplified"}


def stem(form: Form) -> str:
    """The key of a module's text in `form`: `01-imported`, so that forms sort in order."""
    return f"{[stage.form for stage in STAGES].index(form) + 1:02}-{form.name}"


def stages_between(from_form: str | None, to_form: str | None) -> tuple[Stage, ...]:
    """The stages from the one that leaves `from_form` to the one that leaves `to_form`, both included.

    None stands for the first and for the last form. Raises PipelineError for a form that does not exist or comes
    earlier.
    """
    forms = [stage.form for stage in STAGES]
    first = 0 if from_form is None else forms.index(form_named(from_form))
    last = len(forms) - 1 if to_form is None else forms.index(form_named(to_form))
    if last < first:
        raise PipelineError(None, f"form '{to_form}' comes before form '{from_form}'", "the compiler only runs forward")
    return STAGES[first : last + 1]


def stage_names(from_form: str | None = None, to_form: str | None = None) -> tuple[str, ...]:
    """The stages `run` reports to an observer: all but the first, whose form the module already has."""
    return tuple(stage.form.name for stage in stages_between(from_form, to_form)[1:])


@remembering()
def run(
    module: ir.Module,
    from_form: str | None = None,
    to_form: str | None = None,
    *,
    observer: Observer | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    options: PassManagerOptions = PassManagerOptions(),
    witness: Witness | None = None,
    with_texts: bool = True,
) -> dict[str, str]:
    """Transforms `module` in place from one form to another, verifies each form on the way, and returns their texts.

    The texts, with locations, are keyed so that they sort (`01-imported`, `02-placed`); `dump_dir` receives each as
    `01-imported.mlir`, and as `01-imported.txt` for people. `observer` is notified of each stage of `stage_names`, but
    not of the plan, which the caller may extend. `witness` is shown the module in each form, and at each of
    `WITNESSED`. Without `with_texts` nothing is printed, which takes a while, and nothing returned, except for a
    `dump_dir`. Raises DmcError from dmc's passes and verifiers, and MLIRError from upstream's; a note on either says
    how to replay the stage.
    """
    observer = observer or Observer()
    first, *others = stages_between(from_form, to_form)
    texts: dict[str, str] | None = {} if with_texts or dump_dir is not None else None
    # Dumped before it is checked, so that a module that fails its first check can be inspected.
    last = _keep(module, first.form, texts, dump_dir, is_verified=False)
    with _replayable(last, first):
        verify_form(module, first.form)
    for stage in others:
        with _replayable(last, stage), observer.stage(stage.form.name):
            _run_stage(module, stage, options, witness)
            last = _keep(module, stage.form, texts, dump_dir, is_verified=True)
    return texts or {}


def _run_stage(module: ir.Module, stage: Stage, options: PassManagerOptions, witness: Witness | None) -> None:
    passes = list(stage.passes)
    if witness is not None:
        for point in [each for each in stage.passes if str(each) in WITNESSED]:
            behind = passes.index(point) + 1
            run_passes(module, passes[:behind], options)
            witness(WITNESSED[str(point)], module)
            del passes[:behind]
    run_passes(module, passes, options)
    verify_form(module, stage.form)
    if witness is not None:
        witness(stage.form.name, module)


@dataclass(frozen=True)
class _Kept:
    """A form that was reached, and the file that holds it, if dumps were asked for."""

    form: Form
    path: Path | None


def _keep(
    module: ir.Module,
    form: Form,
    texts: dict[str, str] | None,
    dump_dir: str | os.PathLike[str] | None,
    is_verified: bool,
) -> _Kept:
    if texts is None:
        return _Kept(form, None)
    texts[stem(form)] = module.operation.get_asm(enable_debug_info=True, assume_verified=is_verified)
    if dump_dir is None:
        return _Kept(form, None)
    path = Path(dump_dir) / f"{stem(form)}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(texts[stem(form)], encoding="utf-8")
    path.with_suffix(".txt").write_text(printed(module), encoding="utf-8")
    return _Kept(form, path)


@contextmanager
def _replayable(last: _Kept, failing: Stage) -> Generator[None]:
    try:
        yield
    except (DmcError, ir.MLIRError) as error:
        command = f"dmc-opt {shlex.quote(str(last.path))} --from={last.form.name} --to={failing.form.name}"
        error.add_note(
            "pass a dump directory to make this stage replayable" if last.path is None else f"replay: {command}"
        )
        raise
