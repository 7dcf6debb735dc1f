"""Legal jobs are accepted; refusals explain what is wrong in words that people understand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc.errors import ArtifactError, ProofError
from dmc.program import (
    Await,
    Buffer,
    Channel,
    Collective,
    Command,
    Job,
    Kernel,
    Lane,
    Launch,
    Operand,
    Program,
    Range,
    Record,
    Slot,
)
from dmc.program.certificate import Certificate
from dmc.program.code import CodeModule, Copy, DeviceCode, Place
from dmc.proof import PROPERTIES, verify
from tests.certified import certified
from tests.random_jobs import random_job

replace = msgspec.structs.replace
F32 = Operand("f32", (16,))
W, G, SUM = Range("device", 0, 64), Range("device", 256, 64), Range("device", 512, 64)
LANES = (Lane("compute", "compute"), Lane("dp", "comm", "dp"))
KERNELS = {
    "grad": Kernel("grad", (F32,), (F32,), 1, 1),
    "update": Kernel("update", (F32, F32), (F32,), 1, 1),
}
GRADIENT = Launch(0, "grad", (W,), (G,), label="h.0")
REDUCE = Collective(1, "all_reduce", "dp", (0, 1), 0, "f32", 16, G, SUM, "sum", "f32", label="gradient of h.0")
UPDATE = Launch(0, "update", (W, SUM), (W,), label="h.0")
COMMANDS = (GRADIENT, Record(0, 0), Await(1, 0), REDUCE, Record(1, 1), Await(0, 1), UPDATE)
BUFFERS = (
    Buffer("h.0", "parameter", W, 0, 6),
    Buffer("h.0", "gradient", G, 0, 3),
    Buffer("h.0", "communication", SUM, 3, 6),
)
SLOTS = (Slot("h.0", "parameter", "f32", (16,), W),)


COPIED = Place("write", 0, 0, 64)
CODE = DeviceCode(
    {}, {"grad": (Copy(Place("read", 0, 0, 64), COPIED),), "update": (Copy(Place("read", 1, 0, 64), COPIED),)}
)


def _job(change: Callable[[Program], Program] = lambda program: program, ranks: tuple[int, ...] = (0, 1)) -> Job:
    """Two ranks that add up their gradients; some of them changed."""
    whole = [Program(rank, {"device": 768}, LANES, SLOTS, COMMANDS, BUFFERS) for rank in (0, 1)]
    programs = tuple(change(each) if each.rank in ranks else each for each in whole)
    return Job.of({"dp": 2}, (Channel("dp", ("dp",)),), KERNELS, programs)


def _commands(*commands: Command) -> Callable[[Program], Program]:
    return lambda program: replace(program, commands=commands)


def _refuses(job: Job, property: str, story: str) -> None:
    with pytest.raises(ProofError, match=re.escape(story)) as caught:
        verify(job)
    assert caught.value.property == property


def test_the_job_is_accepted() -> None:
    certificate = verify(_job(), {"device": 768}, "cafe")
    # Nobody has said what the job is to compute.
    assert certificate.properties == {name: said for name, said in PROPERTIES.items() if name != "V11"}
    assert certificate.cost_table == "cafe"
    assert certificate.peaks == {"device": 768}


@given(st.integers(0, 10**6), st.integers(0, 20))
def test_legal_jobs_are_accepted(seed: int, length: int) -> None:
    verify(random_job(seed, length))


MODULES = {"step": b"code"}


def test_a_certificate_is_of_one_job() -> None:
    job = _job()
    certificate = Certificate.from_bytes(certified(job, {"device": 768}).with_code(MODULES, None).to_bytes())
    certificate.check(job, MODULES, None)
    with pytest.raises(ArtifactError, match="not to this one"):
        certificate.check(replace(job, mesh={"tp": 2}), MODULES, None)
    with pytest.raises(ArtifactError, match="schema"):
        replace(certificate, schema=0).check(job, MODULES, None)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            {"properties": {"V1": PROPERTIES["V1"]}},
            "does not state that V2, V3, V4, V5, V5b, V6, V7, V8, V10, V11, V12 hold",
        ),
        ({"assumptions": ()}, "rests on assumptions other than"),
        ({"caps": {"device": 512}}, "allows 512 bytes of device memory, but the job needs 768"),
        ({"peaks": {"device": 512}}, "states that ranks need 512 bytes of device memory, but the job needs 768 bytes"),
    ],
)
def test_a_certificate_says_all_that_is_proven(change: dict[str, Any], fact: str) -> None:
    certificate = replace(certified(_job()).with_code(MODULES, None), **change)
    with pytest.raises(ArtifactError, match=fact):
        certificate.check(_job(), MODULES, None)


def test_a_certificate_is_of_its_code() -> None:
    certificate = certified(_job()).with_code(MODULES, CODE)
    certificate.check(_job(), MODULES, CODE)
    for modules, gpu, name in (
        ({"step": b"other"}, CODE, "modules/step"),
        (MODULES | {"more": b""}, CODE, "modules/more"),
        (MODULES, replace(CODE, modules={"iree": CodeModule("other")}), "gpu"),
        (MODULES, None, "gpu"),
    ):
        with pytest.raises(ArtifactError, match=f"is for other code: for {name} it has"):
            certificate.check(_job(), modules, gpu)


def test_code_that_breaks_its_contract_is_refused() -> None:
    broken = DeviceCode({}, CODE.kernels | {"grad": (Copy(COPIED, Place("read", 0, 0, 64)),)})
    with pytest.raises(ArtifactError, match=r"launch of @grad .h.0.: V12: writes operand 0, which the launch only"):
        certified(_job()).with_code(MODULES, broken).check(_job(), MODULES, broken)


def test_a_race_names_both_sides() -> None:
    commands = (*COMMANDS[:5], replace(COMMANDS[5], event=0), UPDATE)
    story = "lane compute, command 6, launch of @update (h.0): V2: accesses device [512, 576) while all_reduce #0 "
    _refuses(_job(_commands(*commands)), "V2", f"{story}(gradient of h.0) (command 3, lane dp) may still do")


def test_a_missing_record() -> None:
    commands = (GRADIENT, GRADIENT, *COMMANDS[2:])
    _refuses(_job(_commands(*commands)), "V1", "await of event 0: V1: waits for event 0 forever: nothing records it")


def test_what_a_command_taken_out_was_for() -> None:
    """Buffers still count it; the error names the race that remains, or what is missing."""
    story = "command 5, launch of @update (h.0): V2: accesses device [512, 576) while all_reduce #0"
    _refuses(_job(_commands(*COMMANDS[:5], UPDATE)), "V2", story)
    story = "buffer 'h.0': V3: is live from command 0 to 6, but there are 6 commands, counted from 0\n"
    _refuses(_job(_commands(*COMMANDS[1:])), "V3", story + "  hint: put back the commands that are missing (1)")


def test_a_mesh_of_other_ranks() -> None:
    story = "the mesh dp=4 has 4 ranks, but there are programs for 2\n  hint: give each rank"
    _refuses(replace(_job(), mesh={"dp": 4}), "V3", story)


def test_a_kernel_that_does_not_exist() -> None:
    story = "V3: its kernel @grid is not among the job's 2\n  hint: did you mean @grad?"
    _refuses(_job(_commands(replace(GRADIENT, kernel="grid"), *COMMANDS[1:])), "V3", story)


def test_a_rank_that_reduces_otherwise() -> None:
    commands = (*COMMANDS[:3], replace(REDUCE, reduction="max"), *COMMANDS[4:])
    story = "rank 1, lane dp, command 3, all_reduce #0 (gradient of h.0): V4: has reduction max, but on rank 0"
    _refuses(_job(_commands(*commands), (1,)), "V4", story)


def test_a_rank_that_stays_away() -> None:
    commands = tuple(GRADIENT if command is REDUCE else command for command in COMMANDS)
    story = "rank 0 issues all_reduce #0 (gradient of h.0), its command 3, but rank 1 nothing more"
    _refuses(_job(_commands(*commands), (1,)), "V4", story)


def test_a_value_in_the_place_of_another() -> None:
    def change(program: Program) -> Program:
        moved = replace(BUFFERS[1], range=W)
        commands = (replace(GRADIENT, writes=(W,)), *COMMANDS[1:3], replace(REDUCE, source=W), *COMMANDS[4:])
        return replace(program, commands=commands, buffers=(BUFFERS[0], moved, BUFFERS[2]))

    _refuses(_job(change), "V7", "begins in device [0, 64) while 'h.0' (gradient, commands 0 to 3) is still live")


def test_a_read_of_nothing() -> None:
    def change(program: Program) -> Program:
        commands = (replace(GRADIENT, writes=(SUM,)), *COMMANDS[1:])
        return replace(program, commands=commands, buffers=(*BUFFERS[:2], replace(BUFFERS[2], first=0)))

    _refuses(_job(change), "V7", "reads 'h.0' (gradient, commands 0 to 3), but device [256, 320) holds nothing")


def test_a_cap_names_what_is_alive() -> None:
    with pytest.raises(ProofError, match=r"the peak it holds 192 bytes at command 3: 'h.0' \(64 bytes\)") as caught:
        verify(_job(), {"device": 512})
    assert caught.value.property == "V8"


def test_a_rank_that_decides_alone() -> None:
    longer = tuple(replace(buffer, last=7) if buffer.last == 6 else buffer for buffer in BUFFERS)
    commands = (*COMMANDS[:6], Record(0, 2), UPDATE)
    job = _job(lambda program: replace(program, commands=commands, buffers=longer), (1,))
    _refuses(job, "V10", "rank 1: V10: its buffers differ from rank 0's")


def test_channels_that_share_ranks_take_turns() -> None:
    """Two communicators of the same ranks hang when both are active, whatever their order of issue."""
    other = replace(REDUCE, lane=2, channel="other", instance=1, source=SUM, target=SUM)
    lanes = (*LANES, Lane("other", "comm", "other"))
    channels = (Channel("dp", ("dp",)), Channel("other", ("dp",)))

    def job(*between: Command) -> Job:
        commands = (*COMMANDS[:3], replace(REDUCE, target=G), *between, other, *COMMANDS[4:])
        made = _job(lambda each: replace(each, lanes=lanes, commands=commands))
        return replace(made, channels=channels)

    from dmc.proof.communicators import check_communicators
    from dmc.proof.order import order_of

    apart = job(Record(1, 9), Await(2, 9))
    check_communicators(apart, tuple(map(order_of, apart.programs)))
    together = job()
    with pytest.raises(ProofError, match="and both involve ranks \\[0, 1\\]") as caught:
        check_communicators(together, tuple(map(order_of, together.programs)))
    assert caught.value.property == "V5b"
