"""A job is the same as data, as IR and as a file."""

from __future__ import annotations

from itertools import repeat

import msgspec
import pytest

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.commands.jobs import STAGES, job_of
from dmc.errors import ArtifactError, DmcError
from dmc.mesh import Mesh
from dmc.passes.shared.programs import write_program
from dmc.program import (
    Await,
    Buffer,
    Channel,
    Collective,
    Job,
    Kernel,
    Lane,
    Launch,
    Move,
    Operand,
    Program,
    Range,
    Record,
    Slot,
)
from tests.random_jobs import random_job

MODULE = """
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">]} : () -> ()
"dm.channel"() {sym_name = "g", group = #dm.group<@mesh, ["dp"]>} : () -> ()
"dm.channel"() {sym_name = "back", groups = [array<i64: 1, 0>, array<i64: 1>]} : () -> ()
func.func private @f(%x: tensor<4x4xf32>) -> tensor<16xbf16>
    attributes {dm.kind = "matmul", dm.flops = 7 : i64, dm.bytes = 96 : i64, dm.scratch = 64 : i64} {
  %0 = tensor.empty() : tensor<16xbf16>
  return %0 : tensor<16xbf16>
}
"""
KERNEL = Kernel("f", (Operand("f32", (4, 4)),), (Operand("bf16", (16,)),), 7, 96, 64, "iree", "matmul")
LANES = (Lane("compute", "compute"), Lane("g", "comm", "g"), Lane("copy_in", "copy_in"))


def _at(offset: int, length: int) -> Range:
    return Range("device", offset, length)


def _program(rank: int) -> Program:
    commands = (
        Move(2, Range("pinned_host", 0, 64), _at(0, 64), "x"),
        Record(2, 0),
        Await(0, 0),
        Launch(0, "f", (_at(0, 64),), (_at(256, 32),), _at(512, 64), "h.0"),
        Collective(1, "all_reduce", "g", (0, 1), 5, "bf16", 16, _at(256, 32), _at(256, 32), "sum", "f32", label="w"),
        Collective(1, "permute", "g", (0, 1), 6, "bf16", 16, _at(256, 32), _at(288, 32), pairs=((0, 1), (1, 0))),
        Collective(1, "broadcast", "g", (0, 1), 7, "i1", 2, _at(0, 2), _at(2, 2), peer=1),
        Collective(1, "send" if rank == 0 else "recv", "g", (0, 1), 8, "i64", 1, *_message(rank), peer=1 - rank),
    )
    slots = (Slot("x", "batch", "f32", (4, 4), Range("pinned_host", 0, 64)),)
    buffers = (Buffer("h.0", "activation", _at(256, 32), 3, 5),)
    return Program(rank, {"device": 1024, "pinned_host": 256}, LANES, slots, commands, buffers)


def _message(rank: int) -> tuple[Range | None, Range | None]:
    return (_at(0, 8), None) if rank == 0 else (None, _at(0, 8))


CHANNELS = (Channel("g", ("dp",)), Channel("back", groups=((1, 0), (1,))))
JOB = Job.of({"dp": 2}, CHANNELS, {"f": KERNEL}, (_program(0), _program(1)), stages=("dp",))


def test_a_job_survives_ir() -> None:
    with ir.Context() as context, ir.Location.unknown():
        dm.load(context)
        module = ir.Module.parse(MODULE)
        with ir.InsertionPoint(module.body):
            for own in JOB.classes:
                write_program(JOB, own, repeat(ir.Location.unknown()))
            module.operation.attributes[STAGES] = ir.ArrayAttr.get([ir.StringAttr.get("dp")])
        module.operation.verify()
        dm.verify_symbols(module)
        assert job_of(ir.Module.parse(str(module))) == JOB


def test_a_job_survives_a_file() -> None:
    assert Job.from_bytes(JOB.to_bytes()) == JOB
    assert JOB.to_bytes() == Job.from_bytes(JOB.to_bytes()).to_bytes()


@pytest.mark.parametrize("damage", [b"", b"other", JOB.to_bytes()[:-4], JOB.to_bytes()[:6] + b"\xff\xff"])
def test_damaged_files_are_refused(damage: bytes) -> None:
    with pytest.raises(ArtifactError, match="compile the step again"):
        Job.from_bytes(damage, "step.dmc")


def test_a_module_without_programs_is_no_job() -> None:
    with ir.Context() as context, ir.Location.unknown():
        dm.load(context)
        with pytest.raises(DmcError, match="dm-lower-to-plan"):
            job_of(ir.Module.parse("module {}"))


def test_only_some_commands() -> None:
    job = random_job(3)
    kept = job.only(Launch, Record)
    for whole, part in zip(job.programs, kept.programs, strict=True):
        assert part.commands == tuple(each for each in whole.commands if isinstance(each, Launch | Record))
        assert (part.lanes, part.slots, part.buffers) == (whole.lanes, whole.slots, ())


def test_groups_are_those_of_the_mesh() -> None:
    job = msgspec.structs.replace(random_job(0), mesh={"a": 2, "b": 3, "c": 2})
    mesh = Mesh(a=2, b=3, c=2)
    for axes in (("a",), ("c", "a"), ("a", "b", "c"), ("b", "c")):
        assert job.groups(Channel("x", axes)) == mesh.groups(axes)
    listed = ((0, 1), (1, 0))
    assert job.groups(Channel("x", groups=listed)) == listed
