"""`dmc memory`: what a job needs of memory, from its programs alone."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dmc.errors import DmcError
from dmc.program import Buffer, Job, Kernel, Launch, Move, Operand, Program, Range, Slot
from dmc.program.program import Lane, Space
from dmc.program.rank_memory import module_of
from dmc.runtime.reports.memory.plot import page, plot, sample
from dmc.runtime.reports.memory.report import report
from dmc.runtime.reports.memory.table import ranks_text

_KERNEL = Kernel("k", (), (Operand("f32", (64,)),), 0, 0)
# As many bytes as no machine has: nothing is run.
HUGE = 1 << 50


def _job(ranks: int = 3) -> Job:
    """Four launches; ranks 0 and 1 are alike. The second value takes the place of the first, in place."""
    return Job.of({"dp": ranks}, (), {"k": _KERNEL}, tuple(_program(rank) for rank in range(ranks)))


def _program(rank: int) -> Program:
    buffers = (
        Buffer("w", "parameter", Range("device", 0, HUGE), 0, 3),
        Buffer("h.3.attn, backward", "activation", Range("device", HUGE, 512), 0, 1),
        Buffer("gradient of w", "gradient", Range("device", HUGE, 512), 1, 3),
        Buffer("scratch of k", "scratch", Range("device", HUGE + 512, 100), 2, 2),
        Buffer("x", "input", Range("pinned_host", 0, 64), 0, 3),
    )
    launches = tuple(
        Launch(0, "k", (), (Range("device", HUGE, 256),), label=label) for label in ("h.3.attn", "h.3.mlp", "h.4", "u")
    )
    extra = 256 if rank == 2 else 0
    arenas: dict[Space, int] = {"device": HUGE + 768 + extra, "pinned_host": 64}
    return Program(rank, arenas, (Lane("compute", "compute"),), (), launches, buffers)


def test_the_peak_and_what_lives_there() -> None:
    alike, last = report(_job()).ranks
    assert (alike.ranks, last.ranks) == ((0, 1), (2,))
    assert alike.peak_command == 2 and alike.labels[alike.peak_command] == "h.4"
    assert alike.peak == HUGE + 612
    assert {k: v for k, v in alike.at_peak.items() if v} == {"parameter": HUGE, "gradient": 512, "scratch": 100}
    assert (alike.fragmentation, last.fragmentation) == (156, 412)
    assert [buffer.label for buffer in alike.alive(2)] == ["w", "gradient of w", "scratch of k"]


def test_what_is_overwritten_in_place_counts_once() -> None:
    memory = report(_job()).ranks[0]
    assert list(memory.live.sum(axis=1)) == [HUGE + 512, HUGE + 512, HUGE + 612, HUGE + 512]
    assert memory.most["activation"] == 512


def test_activations_by_module() -> None:
    names = {
        "transformer.h.11.attn.c_attn, backward": "transformer.h.11",
        "h.3": "h.3",
        "wte#aten.embedding (model.py:3)": "wte",
        "encoder.norm": "encoder",
        "#aten.mm (loss.py:61)": "outside modules",
        "": "outside modules",
    }
    assert {label: module_of(label) for label in names} == names


def test_the_table_says_all() -> None:
    text = report(_job()).text(120)
    assert "ranks 0–1" in text and "rank 2" in text
    for line in ("weights", "gradients", "workspace", "fragmentation and alignment", "arena", "gradient of w"):
        assert line in text
    assert next(words.split() for words in text.splitlines() if words.startswith("gradient of w"))[-1] == "gradients"
    assert "the peak is at command 2, h.4" in text
    assert ranks_text([0, 1, 2, 5]) == "ranks 0–2, 5"
    assert "inputs of calls" not in text


def test_inputs_of_calls_in_flight_stand_beside_the_arena() -> None:
    program = _program(0)
    staged = msgspec.structs.replace(program, arenas={**program.arenas, "staged": 512})
    text = report(Job.of({"dp": 1}, (), {"k": _KERNEL}, (staged,))).text(120)
    assert "1.02 kB" in next(row for row in text.splitlines() if "inputs of calls in flight" in row)


def test_a_sample_keeps_the_peaks() -> None:
    live = np.zeros((5000, 9), dtype=np.int64)
    live[3217, 2] = 7
    commands, rows = sample(live)
    assert len(commands) == len(rows) <= 800
    assert rows.max() == 7 and 3217 in commands


def test_the_page_needs_nothing_else() -> None:
    text = page(report(_job()))
    data = json.loads(text.partition("const figures = ")[2].partition(";\nconst W")[0])
    assert [figure["title"] for figure in data] == ["ranks 0–1", "rank 2"]
    assert data[0]["live"][2] == [HUGE, 512, 0, 0, 0, 0, 0, 0, 100]
    assert "src=" not in text and "@import" not in text and "http://www.w3.org/2000/svg" in text


def test_a_label_cannot_end_the_script() -> None:
    program = _program(0)
    evil = Buffer("</script><b>", "activation", Range("device", 0, 1 << 51), 0, 3)
    job = Job.of({"dp": 1}, (), {"k": _KERNEL}, (msgspec.structs.replace(program, buffers=(evil,)),))
    assert page(report(job)).count("</script>") == 1


def test_the_picture_is_a_png(tmp_path: Path) -> None:
    with pytest.raises(DmcError, match=r"memory.svg: is not the name of a PNG"):
        plot(report(_job()), tmp_path / "memory.svg")
    pytest.importorskip("matplotlib")
    plot(report(_job()), tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_a_program_of_nothing() -> None:
    empty = Program(0, {}, (), (), ())
    memory = report(Job.of({"dp": 1}, (), {}, (empty,))).ranks[0]
    assert (memory.peak, memory.arena, memory.fragmentation) == (0, 0, 0)
    assert "rank 0: no memory" in report(Job.of({"dp": 1}, (), {}, (empty,))).text(100)


def test_the_command_writes_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from dmc.cli.main import main
    from dmc.runtime.files.artifact import Artifact
    from tests.artifacts import artifact_of

    monkeypatch.setattr(Artifact, "read", lambda *_, **__: artifact_of(_job()))
    html = tmp_path / "memory.html"
    assert main(["memory", "step.dmc", "--html", str(html)]) == 0
    assert "ranks 0–1" in capsys.readouterr().out
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_inspect_tells_what_a_planned_step_holds() -> None:
    from dmc.cli.inspect import describe_artifact
    from tests.artifacts import artifact_of

    program = _program(0)
    more = Buffer("h.4", "activation", Range("device", 0, 300), 0, 2)
    program = msgspec.structs.replace(program, buffers=(*program.buffers, more))
    job = Job.of({"dp": 1}, (), {"k": _KERNEL}, (program,))
    held = describe_artifact(artifact_of(job))["bytes"]
    assert (held["gradients"], held["activations"], held["arena"]) == (512, 812, HUGE + 768)


def test_what_is_kept_computed_again_and_offloaded() -> None:
    def buffer(label: str, first: int, last: int) -> Buffer:
        return Buffer(label, "activation", Range("device", 256 * first, 100), first, last)

    buffers = (
        buffer("h.0.mlp", 0, 5),
        buffer("h.1.mlp", 1, 1),
        buffer("h.1.mlp, recomputed", 5, 7),
        buffer("h.1.mlp, backward", 6, 7),
    )
    labels = ("h.0.mlp", "h.1.mlp", "h.1.mlp, backward", "h.1.mlp, recomputed", "h.0.mlp, backward")
    launches = tuple(Launch(0, "k", (), (), label=label) for label in labels)
    lanes = (Lane("compute", "compute"), Lane("out", "copy_out"), Lane("in", "copy_in"))
    device, host, loss = Range("device", 0, 100), Range("pinned_host", 256, 100), Range("pinned_host", 0, 100)
    copies = (Move(1, device, host, "h.2.mlp"), Move(2, host, device, "h.2.mlp"), Move(1, device, loss, "loss"))
    slots = (Slot("loss", "output", "f32", (25,), loss),)
    program = Program(
        0, {"device": 2048, "pinned_host": 512}, lanes, slots, (*launches[:2], *copies, *launches[2:]), buffers
    )
    made = report(Job.of({"dp": 1}, (), {"k": _KERNEL}, (program,)))
    (memory,) = made.ranks
    assert (memory.kept(), memory.recomputed(), memory.offloaded()) == ({"h.0": 100}, {"h.1": 100}, {"h.2": 100})
    text = made.text(100)
    assert [line.split() for line in text.splitlines() if line.startswith(("h.0  ", "h.1  ", "h.2  "))][:3] == [
        ["h.0", "100", "B", "0", "B", "0", "B"],
        ["h.1", "0", "B", "100", "B", "0", "B"],
        ["h.2", "0", "B", "0", "B", "100", "B"],
    ]
