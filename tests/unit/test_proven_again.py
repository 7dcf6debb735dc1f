"""A certificate is not believed: the plan of a file is proven again before it runs, and parts unpack within limits."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dmc.errors import ArtifactError, DmcError
from dmc.program import DEVICE, Await, Channel, Class, Collective, Command, Job, Lane, Launch, Program, Range
from dmc.program.code import CodeModule, DeviceCode
from dmc.program.packed import MAX_BYTES, packed, unpacked
from dmc.program.tuning import Candidates
from dmc.proof import verify
from dmc.runtime.files.artifact import Artifact
from tests.artifacts import artifact_of
from tests.hostile import members_of, write
from tests.random_jobs import random_job
from tests.rank_programs import with_programs

JOB = random_job(3)
HINT = "compile the step again"


def _first_rank(job: Job, **changes: object) -> Job:
    return with_programs(job, [msgspec.structs.replace(job.program(0), **changes)])


def _awaiting_another(job: Job) -> Job:
    def changed(command: Command) -> Command:
        return msgspec.structs.replace(command, event=0) if isinstance(command, Await) else command

    return job.mapped(lambda each: msgspec.structs.replace(each, commands=tuple(map(changed, each.commands))))


def _moved(job: Job) -> Job:
    """A launch of rank 0 writes far behind the arena."""
    commands = list(job.programs[0].commands)
    index = next(i for i, command in enumerate(commands) if isinstance(command, Launch))
    launch = commands[index]
    assert isinstance(launch, Launch)
    far = msgspec.structs.replace(launch.writes[0], offset=1 << 40)
    commands[index] = msgspec.structs.replace(launch, writes=(far, *launch.writes[1:]))
    return _first_rank(job, commands=tuple(commands))


def _smaller(job: Job) -> Job:
    return _first_rank(job, arenas=dict.fromkeys(job.programs[0].arenas, 256))


def _exchanged(job: Job) -> Job:
    """On every rank a parameter and an input of one size have each other's place, in other memory."""
    parameter, given = (next(s for s in job.programs[0].slots if s.name == name) for name in ("w0", "x1"))
    assert parameter.range.length == given.range.length
    places = {"w0": given.range, "x1": parameter.range}
    return job.mapped(
        lambda program: msgspec.structs.replace(
            program,
            slots=tuple(msgspec.structs.replace(s, range=places.get(s.name, s.range)) for s in program.slots),
        )
    )


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (_exchanged, "slot (w0|x1): V3: "),
        (_awaiting_another, r"V\d"),
        (_moved, "V3: uses .* outside the arena"),
        (_smaller, "V3: "),
    ],
)
def test_a_changed_plan_with_a_fitting_certificate_is_refused(
    tmp_path: Path, change: Callable[[Job], Job], fact: str
) -> None:
    forged = change(JOB)
    artifact_of(forged).write(tmp_path / "step.dmc")
    with pytest.raises(ArtifactError, match=rf"step\.dmc: training: its plan may not run: .*{fact}"):
        Artifact.read(tmp_path / "step.dmc")
    assert Artifact.read(tmp_path / "step.dmc", to_run=False).job == forged
    evaluation = replace(artifact_of(forged), state=())
    replace(artifact_of(JOB), programs={"evaluation": evaluation}).write(tmp_path / "step.dmc")
    with pytest.raises(ArtifactError, match=r"step\.dmc: evaluation: its plan may not run"):
        Artifact.read(tmp_path / "step.dmc")


def test_ranks_that_run_one_program_are_proven_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(sys.modules["dmc.proof.verify"], "check_races", lambda program, *_: seen.append(program.rank))
    verify(JOB)
    different = {msgspec.msgpack.encode(msgspec.structs.replace(program, rank=0)) for program in JOB.programs}
    assert len(seen) == len(different) < len(JOB.programs)
    assert seen[0] == 0


def test_values_unpack_within_limits() -> None:
    value = {"a": [1, 2, 3]}
    assert unpacked(packed(value), dict, "here", HINT) == value
    with pytest.raises(ArtifactError, match="here: has more than 4 bytes when unpacked"):
        unpacked(packed(value), dict, "here", HINT, size=4)
    for damage in (packed(value)[:-3], packed(value) + b"x", b"", zlib.compress(b"\xc1")):
        with pytest.raises(ArtifactError, match="here: is damaged"):
            unpacked(damage, dict, "here", HINT)


def test_a_bomb_takes_no_memory() -> None:
    """A kilobyte that becomes a thousand, and what says so itself."""
    bomb = zlib.compress(bytes(32 << 20), 9)
    head = JOB.to_bytes()[:8]
    ways = (DeviceCode.from_bytes, Candidates.from_bytes, lambda data, where: Job.from_bytes(head + data, where))
    for read in ways:
        with pytest.raises(ArtifactError, match="bytes when unpacked, the most that it may have"):
            read(bomb, "here")
    assert MAX_BYTES <= 1 << 30


def test_what_shrinks_much_is_read_again() -> None:
    """A thousand commands that are alike shrink to a hundredth."""
    own = Range(DEVICE, 0, 256)
    moved = Collective(0, "all_reduce", "dp", (0, 1), 1, "f32", 64, own, own, "sum", "f32")
    program = Program(0, {DEVICE: 256}, (Lane("comm", "comm", "dp"),), (), (moved,) * 1000)
    job = Job({"dp": 2}, (Channel("dp", ("dp",)),), {}, (Class((0, 1), program),))
    raw = msgspec.msgpack.encode(job)
    assert len(raw) > 64 * len(zlib.compress(raw, 6))
    assert Job.from_bytes(job.to_bytes()) == job
    assert len(job.to_bytes()) < 1.01 * len(raw)


def test_what_is_too_large_to_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["dmc.program.packed"], "MAX_BYTES", 1000)
    with pytest.raises(ArtifactError, match=r"the file: would have a plan or code of .* bytes; at most 1,000 are read"):
        JOB.to_bytes()


def test_the_size_of_a_manifest_is_the_limit(tmp_path: Path) -> None:
    artifact_of(JOB).write(tmp_path / "step.dmc")
    members = members_of(tmp_path / "step.dmc")
    manifest = msgspec.json.decode(members["manifest.json"])
    size = manifest["unpacked"]["job.bin"]
    assert size == len(msgspec.msgpack.encode(JOB))
    manifest["unpacked"]["job.bin"] = size - 1
    write(tmp_path / "step.dmc", {**members, "manifest.json": msgspec.json.encode(manifest)})
    with pytest.raises(ArtifactError, match=rf"job\.bin: has more than {size - 1:,} bytes when unpacked"):
        Artifact.read(tmp_path / "step.dmc", to_run=False)


def test_code_is_checked_where_it_is_read() -> None:
    code = DeviceCode({"m": CodeModule("")}, {})
    assert DeviceCode.from_bytes(code.to_bytes()) == code
    with pytest.raises(DmcError, match="is damaged"):
        DeviceCode.from_bytes(packed([{}, {"k": [["fill", b"abc", ["read", 0, 0, 3]]]}]))
    with pytest.raises(DmcError, match="Expected `int` >= 0"):
        DeviceCode.from_bytes(packed([{}, {"k": [["fill", b"ab", ["read", -1, 0, 3]]]}]))


def test_a_plan_names_what_it_has() -> None:
    """Also where it is only shown, and not proven."""
    with pytest.raises(ArtifactError, match=r"here: rank 0, command \d+: there is no kernel @"):
        Job.from_bytes(msgspec.structs.replace(JOB, kernels={}).to_bytes(), "here")
    with pytest.raises(ArtifactError, match="here: rank 0, command 0: there is no lane "):
        Job.from_bytes(_first_rank(JOB, lanes=()).to_bytes(), "here")
