"""The pipeline: its texts, dumps, observer and replays; the forms by name; the cost of inlining."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmc import forms, pipeline
from dmc._mlir import ir
from dmc.errors import DmcError, PipelineError
from dmc.observer import RecordingObserver
from dmc.passes.base import chosen
from dmc.passes.scheduled.tensors.inline_composites import InlineComposites

OF_GPUS = (
    "dm-exchange-sums dm-absorb-casts dm-chunk-head dm-pad-classes dm-merge-products dm-channels-last dm-merge-losses "
    "dm-pack-masks dm-recompute dm-stage-inputs"
)
TOOL = Path(__file__).resolve().parents[2] / "tools" / "dmc-opt"

GOOD = """
func.func @step(
    %w: tensor<4xf32> {dm.name = "w", dm.role = "parameter"}, %x: tensor<4xf32> {dm.name = "x", dm.role = "batch"})
    -> (tensor<4xf32> {dm.name = "w"}, tensor<4xf32> {dm.name = "loss"}) {
  %new = "dm.composite"(%w, %x) {kind = "optimizer_update.sgd", decomposition = @sgd_0, parameters = {}}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new, %x : tensor<4xf32>, tensor<4xf32>
}
func.func private @sgd_0(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.subf %w, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
# Form imported allows a plain call; one that reaches itself cannot be inlined.
FAILS_LATER = """
func.func @step(%x: tensor<4xf32> {dm.name = "x", dm.role = "batch"}) -> (tensor<4xf32> {dm.name = "loss"}) {
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
FAILS_AT_ONCE = "func.func @train() { return }"


def _opt(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False)


def test_the_stages_lead_through_the_forms() -> None:
    assert tuple(stage.form for stage in pipeline.STAGES) == forms.FORMS
    assert pipeline.stage_names() == ("placed", "scheduled", "planned")
    assert pipeline.stage_names("scheduled") == ("planned",)
    assert pipeline.stage_names(to_form="imported") == ()


def test_texts_that_nobody_reads_are_not_made(context: ir.Context, tmp_path: Path) -> None:
    assert pipeline.run(ir.Module.parse(GOOD, context), to_form="placed", with_texts=False) == {}
    texts = pipeline.run(ir.Module.parse(GOOD, context), to_form="placed")
    dumped = pipeline.run(ir.Module.parse(GOOD, context), to_form="placed", with_texts=False, dump_dir=tmp_path)
    assert [*texts] == ["01-imported", "02-placed"] and dumped == texts
    assert (tmp_path / "02-placed.mlir").read_text(encoding="utf-8") == texts["02-placed"]


# Of the passes that run for some targets only, those that run for these, which share one plan.
@pytest.mark.parametrize(
    ("names", "without"),
    [
        ("cuda", "dm-pack-concats dm-share-panels"),
        ("cpu+cuda", "dm-channels-last dm-pack-masks dm-pack-concats dm-share-panels"),
        ("cpu:generic", OF_GPUS),
        ("cuda:iree", f"{OF_GPUS} dm-share-panels"),
        ("cpu+cuda:iree", f"{OF_GPUS} dm-share-panels"),
    ],
)
def test_passes_of_some_targets(context: ir.Context, names: str, without: str) -> None:
    module = ir.Module.parse(f'module attributes {{dm.target = "{names}"}} {{}}', context)
    every = [str(each).partition("{")[0] for stage in pipeline.STAGES for each in stage.passes]
    run = [str(each) for stage in pipeline.STAGES for each in chosen(module, stage.passes)]
    assert ("dm-inline-composites{keep_whole=true}" in run) == (names in ("cuda", "cpu+cuda"))
    assert [each.partition("{")[0] for each in run] == [each for each in every if each not in without.split()]


def test_forms_that_do_not_exist_or_lie_behind() -> None:
    with pytest.raises(
        PipelineError, match="no form 'nonesuch'\n  hint: the forms are imported, placed, scheduled, planned"
    ):
        forms.form_named("nonesuch")
    with pytest.raises(PipelineError, match="form 'imported' comes before form 'planned'"):
        pipeline.stages_between("planned", "imported")


def test_run_gives_the_text_of_each_form(context: ir.Context) -> None:
    module = ir.Module.parse(GOOD, context)
    texts = pipeline.run(module, to_form="scheduled")
    assert list(texts) == ["01-imported", "02-placed", "03-scheduled"]
    assert "dm.composite" in texts["01-imported"]
    assert texts["02-placed"] == texts["01-imported"], "without a mesh there is nothing to place"
    assert "dm.composite" not in texts["03-scheduled"]
    assert texts["03-scheduled"] == module.operation.get_asm(enable_debug_info=True)
    assert 'loc("-":10:8)' in texts["03-scheduled"], "locations are kept"


def test_dumps_are_written_and_replayed(context: ir.Context, tmp_path: Path) -> None:
    folder = tmp_path / "a folder" / "of dumps"
    texts = pipeline.run(ir.Module.parse(GOOD, context), to_form="scheduled", dump_dir=folder)
    assert {path.stem: path.read_text() for path in folder.glob("*.mlir")} == texts
    assert {path.stem for path in folder.glob("*.txt")} == texts.keys()
    assert "func @step(" in (folder / "03-scheduled.txt").read_text()
    replayed = _opt(str(folder / "01-imported.mlir"), "--from=imported", "--to=scheduled", "--mlir-print-debuginfo")
    assert (replayed.stdout, replayed.stderr) == (texts["03-scheduled"], "")


def test_the_observer_sees_each_stage(context: ir.Context) -> None:
    observer = RecordingObserver()
    pipeline.run(ir.Module.parse(GOOD, context), to_form="scheduled", observer=observer)
    assert [time.name for time in observer.times if not time.failed] == ["placed", "scheduled"]
    assert observer.planned == ()


@pytest.mark.parametrize(
    ("source", "dumped", "message"),
    [
        (FAILS_LATER, "--from=placed --to=scheduled", "cannot be inlined"),
        (FAILS_AT_ONCE, "--to=imported", "no function @step"),
    ],
)
def test_an_error_says_how_to_replay_it(
    context: ir.Context, tmp_path: Path, source: str, dumped: str, message: str
) -> None:
    observer = RecordingObserver()
    with pytest.raises(DmcError, match=message) as raised:
        pipeline.run(
            ir.Module.parse(source, context), to_form="scheduled", dump_dir=tmp_path / "my dumps", observer=observer
        )
    (note,) = raised.value.__notes__
    assert note.endswith(dumped)
    # The check of the input is no stage.
    assert [time.name for time in observer.times if time.failed] == (["scheduled"] if source is FAILS_LATER else [])
    program, *arguments = shlex.split(note.removeprefix("replay: "))
    assert program == "dmc-opt"
    replayed = _opt(*arguments)
    assert replayed.returncode == 1
    assert message in replayed.stderr


def test_passes_that_miss_their_form_are_found(context: ir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    imported, placed = (pipeline.Stage(form, ()) for form in (forms.IMPORTED, forms.PLACED))
    stages = (imported, placed, pipeline.Stage(forms.SCHEDULED, ("canonicalize",)))
    monkeypatch.setattr(pipeline, "STAGES", stages)
    with pytest.raises(DmcError, match=r"dm\.composite: may not appear in @step in form 'scheduled'"):
        pipeline.run(ir.Module.parse(GOOD, context), to_form="scheduled")


def test_without_dumps_an_error_says_how_to_get_them(context: ir.Context) -> None:
    with pytest.raises(DmcError) as raised:
        pipeline.run(ir.Module.parse(FAILS_LATER, context), to_form="scheduled")
    assert raised.value.__notes__ == ["pass a dump directory to make this stage replayable"]


def _composites(count: int) -> str:
    """A chain of `count` composites over ten decompositions of ten operations each."""
    lines: list[str] = []
    for body in range(10):
        lines.append(f"func.func private @d{body}(%x: tensor<4xf32>) -> tensor<4xf32> {{")
        lines += [f"  %{i} = math.tanh %{'x' if i == 0 else i - 1} : tensor<4xf32>" for i in range(10)]
        lines += ["  return %9 : tensor<4xf32>", "}"]
    lines.append("func.func @chain(%c0: tensor<4xf32>) -> tensor<4xf32> {")
    lines += [
        f'  %c{i + 1} = "dm.composite"(%c{i}) {{kind = "k", decomposition = @d{i % 10}, parameters = {{}}}}'
        " : (tensor<4xf32>) -> tensor<4xf32>"
        for i in range(count)
    ]
    return "\n".join([*lines, f"  return %c{count} : tensor<4xf32>", "}"])


def _inlining_seconds(context: ir.Context, count: int) -> float:
    """Processor time, which other work on the machine does not change much."""
    module = ir.Module.parse(_composites(count), context)
    start = time.process_time()
    InlineComposites().run(module)
    seconds = time.process_time() - start
    assert str(module).count("math.tanh") == 10 * count
    return seconds


def test_inlining_is_linear(context: ir.Context) -> None:
    few = min(_inlining_seconds(context, 500) for _ in range(3))
    many = _inlining_seconds(context, 4000)
    # Eight times the composites; a quadratic pass takes 64 times as long. A busy machine may make it a few times more.
    assert many < 8 * few * 5


def test_dumps_name_the_source_of_what_was_imported(context: ir.Context, tmp_path: Path) -> None:
    source = re.sub(r"(arith\.subf.*)", r'\1 loc("model.py":12:3)', GOOD)
    pipeline.run(ir.Module.parse(source, context), to_form="scheduled", dump_dir=tmp_path)
    assert '"model.py":12:3' in (tmp_path / "03-scheduled.mlir").read_text()
