"""A step's dataflow, from the dumps of its forms."""

from __future__ import annotations

from pathlib import Path

from dmc._mlir import ir
from dmc.analysis.dataflow.recorder import OPENED, PLACED, SCHEDULED, SIMPLIFIED, Recorder
from dmc.errors import DmcError
from dmc.passes.base import Element, On, run_passes
from dmc.passes.scheduled.split_stages import SplitStages
from dmc.passes.scheduled.tensors.absorb_casts import AbsorbCasts
from dmc.passes.scheduled.tensors.channels_last import ChannelsLast
from dmc.passes.scheduled.tensors.chunk_head import ChunkHead
from dmc.passes.scheduled.tensors.inline_composites import InlineComposites
from dmc.passes.scheduled.tensors.merge_products import MergeProducts
from dmc.passes.scheduled.tensors.pad_classes import PadClasses
from dmc.passes.where import GPU, GPUS
from dmc.program import Job
from dmc.program.dataflow import Dataflow

# What leads from form placed to each point, as in the pipeline.
RECOMPUTED: dict[str, tuple[Element, ...]] = {
    OPENED: (SplitStages(), On(GPU, AbsorbCasts()), On(GPU, InlineComposites(keep_whole=True), InlineComposites())),
    SIMPLIFIED: (
        "canonicalize",
        On(GPU, ChunkHead()),
        On(GPU, PadClasses()),
        "cse",
        On(GPU, MergeProducts()),
        On(GPUS, ChannelsLast()),
    ),
}


def dataflow_of_dumps(folder: Path, planned: ir.Module, job: Job) -> Dataflow:
    """The dataflow that `job`, of a module in form planned, must have, from the dumps `…-placed.mlir` and
    `…-scheduled.mlir`.

    What is between the two is recomputed. Raises DmcError for a missing dump.
    """
    recorder = Recorder()
    placed = _parse(folder, PLACED, planned)
    recorder.see(PLACED, placed)
    for point, passes in RECOMPUTED.items():
        run_passes(placed, passes)
        recorder.see(point, placed)
    recorder.see(SCHEDULED, _parse(folder, SCHEDULED, planned))
    return recorder.dataflow(planned, job)


def _parse(folder: Path, form: str, like: ir.Module) -> ir.Module:
    found = sorted(folder.glob(f"*-{form}.mlir"))
    if len(found) != 1:
        raise DmcError(
            str(folder),
            f"contains {len(found)} dumps of form '{form}'",
            "use a --dump-dir with the dumps of a single compilation",
        )
    return ir.Module.parse(found[0].read_text(encoding="utf-8"), context=like.context)
