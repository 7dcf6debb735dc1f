"""Programs beside a step, in one file: what does not share its state is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dmc._mlir import ir
from dmc.analysis.storage.fixed import fix_state, fixed_offsets, is_decided, is_on, of_stage
from dmc.errors import ArtifactError
from dmc.program import Job, Program, Range
from dmc.program.program import Slot
from dmc.runtime.checks import check_artifact
from dmc.runtime.files.artifact import EVALUATION, Artifact
from dmc.step_function import find_step
from tests.artifacts import artifact_of
from tests.random_jobs import random_job
from tests.rank_programs import with_programs


def _with(program: Any) -> Artifact:
    """An evaluation beside a step: it takes no rates."""
    beside = replace(program, state=(), signature=replace(program.signature, controls=()))
    return replace(artifact_of(), programs={EVALUATION: beside})


def test_a_file_holds_all_programs(tmp_path: Path) -> None:
    """Each with its own parts, and one state."""
    other = artifact_of(random_job(1), ir={"01-imported": "of the evaluation"})
    whole = _with(other)
    whole.write(tmp_path / "step.dmc")
    read = Artifact.read(tmp_path / "step.dmc", to_run=False)
    assert (read.job, read.ir) == (whole.job, whole.ir) != (other.job, other.ir)
    assert (read.programs[EVALUATION].job, read.programs[EVALUATION].ir) == (other.job, other.ir)
    assert (len(read.state), read.programs[EVALUATION].state) == (len(whole.state), ())
    check_artifact(_with(artifact_of()))


def test_a_program_with_its_state_elsewhere_is_refused() -> None:
    job = artifact_of().job
    moved = tuple(
        msgspec.structs.replace(slot, range=Range(slot.range.space, slot.range.offset + 4096, slot.range.length))
        for slot in job.programs[0].slots
    )
    changed = with_programs(job, [msgspec.structs.replace(job.program(0), slots=moved)])
    with pytest.raises(ArtifactError, match=r"has '.*@0' elsewhere for its evaluation"):
        check_artifact(_with(replace(artifact_of(), job=changed)))
    with pytest.raises(ArtifactError, match="is split over ranks in another way for its evaluation"):
        check_artifact(_with(replace(artifact_of(), signature=replace(artifact_of().signature, mesh={"dp": 2}))))
    with pytest.raises(ArtifactError, match="has no code for 'cpu' for its evaluation"):
        check_artifact(_with(replace(artifact_of(), modules={})))


STEP = """
func.func @step(%v: tensor<64xf32> {dm.name = "v", dm.role = "parameter"},
                %w: tensor<64xf32> {dm.name = "w", dm.role = "parameter"},
                %x: tensor<64xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<64xf32> {dm.name = "v"}, tensor<64xf32> {dm.name = "w"}) {
  return %v, %w : tensor<64xf32>, tensor<64xf32>
}
"""


def test_a_program_beside_a_step_has_the_state_where_the_step_has_it(context: ir.Context) -> None:
    """Where a bucket decides the order of state in memory, only one of the programs may have such a bucket."""
    module = ir.Module.parse(STEP)
    places = {"v": ("parameter", 256), "w": ("parameter", 0), "x": ("batch", 512)}
    slots = tuple(Slot(key, role, "f32", (64,), Range("device", at, 256)) for key, (role, at) in places.items())
    fix_state(module, Job.of({"dp": 1}, (), {}, (Program(0, {"device": 768}, (), slots, ()),)))
    function = find_step(module)
    fixed = fixed_offsets(function)
    assert [fixed.get(value) for value in function.arguments] == [256, 0, None]


def test_stages_have_their_own_places(context: ir.Context) -> None:
    """The second has no "v", the first no "w"; a program beside keeps what a stage has, also what it never reads."""
    module = ir.Module.parse(STEP)
    programs = [
        Program(rank, {"device": 1024}, (), (Slot(name, "parameter", "f32", (64,), Range("device", at, 256)),), ())
        for rank, (name, at) in enumerate([("v", 256), ("w", 512), ("v", 256), ("w", 512)])
    ]
    fix_state(module, Job.of({"dp": 2, "pp": 2}, (), {}, programs, ("pp",)))
    given = find_step(module).arg_attrs
    assert [[is_on(own, stage) for stage in range(2)] for own in given] == [
        [True, False],
        [False, True],
        [False, False],
    ]
    assert [is_decided(own) for own in given] == [True, True, False]
    for stage, expected in enumerate(([256, None, None], [None, 512, None])):
        own = ir.Module.parse(STEP)
        function = find_step(own)
        function.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([of_stage(each, stage) for each in given])
        assert own.operation.verify()
        fixed = fixed_offsets(function)
        assert [fixed.get(value) for value in function.arguments] == expected
