"""dmc-opt: what it prints, where, and with which exit code."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dmc.cli import opt

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "dmc-opt"

TWO_NEGATIONS = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %unused = arith.negf %a : tensor<4xf32>
  %0 = arith.negf %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
MALFORMED = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.addf %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


@dataclass(frozen=True)
class Outcome:
    """What a run of dmc-opt left."""

    code: int
    out: str
    err: str


class Runner:
    """Runs dmc-opt in this process; MLIR's own writing to stderr is captured too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
        self._monkeypatch, self._capfd, self.folder = monkeypatch, capfd, folder

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        self._capfd.readouterr()
        code = opt.main(list(arguments))
        out, err = self._capfd.readouterr()
        return Outcome(code, out, err)

    def file(self, text: str, name: str = "in.mlir") -> str:
        """The path of a new file with this text."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Runner:
    return Runner(monkeypatch, capfd, tmp_path)


def test_reads_stdin_and_prints(run: Runner) -> None:
    outcome = run(stdin=TWO_NEGATIONS)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("arith.negf") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--canonicalize"],
        ["-canonicalize"],
        ["--canonicalize=max-iterations=3"],
        ["-p", "canonicalize"],
        ["--pass-pipeline=builtin.module(func.func(canonicalize))"],
        ["--cse", "--canonicalize"],
    ],
)
def test_passes_by_pipeline_and_by_shorthand(run: Runner, arguments: list[str]) -> None:
    outcome = run(run.file(TWO_NEGATIONS), *arguments)
    assert outcome.code == 0
    assert outcome.out.count("arith.negf") == 1


def test_shorthands_run_in_the_order_written(run: Runner) -> None:
    outcome = run("--mlir-print-ir-after-all", "--cse", "--dm-inline-composites", "--canonicalize", stdin=TWO_NEGATIONS)
    headers = [line for line in outcome.err.splitlines() if "IR Dump After" in line]
    found = [
        name
        for header in headers
        for name in ("CSEPass", "dm-inline-composites", "CanonicalizerPass")
        if name in header
    ]
    assert found == ["CSEPass", "dm-inline-composites", "CanonicalizerPass"]


def test_options_of_ours_by_shorthand(run: Runner) -> None:
    outcome = run("--dm-verify-form=form=placed", stdin=TWO_NEGATIONS)
    assert outcome.code == 1
    assert "error: builtin.module: no function @step" in outcome.err


def test_output_file(run: Runner) -> None:
    target = run.folder / "out.mlir"
    outcome = run("-o", str(target), stdin=TWO_NEGATIONS)
    assert (outcome.code, outcome.out) == (0, "")
    assert target.read_text().startswith("module {")


def test_malformed_ir_is_located(run: Runner) -> None:
    path = run.file(MALFORMED)
    outcome = run(path)
    assert (outcome.code, outcome.out) == (1, "")
    message = f"{path}:2:23: error: use of undeclared SSA value name\n"
    assert outcome.err.startswith(message + "  %0 = arith.addf %a, %b : tensor<4xf32>\n                      ^")


def test_malformed_stdin_is_located(run: Runner) -> None:
    assert run(stdin=MALFORMED).err.startswith("<stdin>:2:23: error: ")


def test_a_located_error_of_a_pass(run: Runner) -> None:
    source = "\n" + TWO_NEGATIONS.replace("@f", "@step")
    outcome = run("-p", "dm-verify-form{form=imported}", stdin=source)
    assert outcome.code == 1
    assert outcome.err.startswith("<stdin>:2:1: error: func.func: argument 0 of @step has no name\nfunc.func @step(")
    assert outcome.err.endswith("  hint: set its attribute dm.name\n")


def test_split_input_keeps_line_numbers_and_goes_on(run: Runner) -> None:
    outcome = run("--split-input-file", stdin=f"{TWO_NEGATIONS}// -----\n{MALFORMED}// -----\n{TWO_NEGATIONS}")
    assert outcome.code == 1
    assert outcome.out.count("func.func @f") == 2
    assert outcome.out.count("// -----\n") == 1
    assert outcome.err.startswith("<stdin>:8:23: error: ")


@pytest.mark.parametrize(
    ("comment", "code"),
    [("// expected-error {{undeclared}}", 0), ("// expected-error {{something else}}", 1), ("", 1)],
)
def test_verified_diagnostics_decide_the_exit_code(run: Runner, comment: str, code: int) -> None:
    expecting = MALFORMED.replace("%b : tensor<4xf32>", f"%b : tensor<4xf32> {comment}")
    outcome = run("--verify-diagnostics", "--split-input-file", stdin=f"{expecting}// -----\n{TWO_NEGATIONS}")
    assert outcome.code == code
    assert ("error:" in outcome.err) == (code == 1)


def test_a_good_input_with_an_unmet_expectation_fails(run: Runner) -> None:
    outcome = run("--verify-diagnostics", stdin=f"{TWO_NEGATIONS}// expected-error {{{{never}}}}\n")
    assert outcome.code == 1
    assert outcome.err.startswith('<stdin>:6:1: error: expected error "never" was not produced')


def test_without_split_the_marker_is_a_comment(run: Runner) -> None:
    source = f"{TWO_NEGATIONS}// -----\n{TWO_NEGATIONS.replace('@f', '@g')}"
    outcome = run(stdin=source)
    assert outcome.code == 0
    assert outcome.out.count("module {") == 1


def test_generic_form_and_locations(run: Runner) -> None:
    outcome = run("--mlir-print-op-generic", "--mlir-print-debuginfo", run.file(TWO_NEGATIONS))
    assert '"arith.negf"(' in outcome.out
    assert f'loc("{run.folder}/in.mlir":2:13)' in outcome.out


def test_timing_names_each_pass(run: Runner) -> None:
    outcome = run("--mlir-timing", "-p", "dm-inline-composites,cse", stdin=TWO_NEGATIONS)
    assert "Execution time report" in outcome.err
    assert "InlineComposites" in outcome.err
    assert "CSEPass" in outcome.err


def test_unregistered_dialects_are_refused_unless_allowed(run: Runner) -> None:
    source = 'func.func @f() { "other.op"() : () -> () return }'
    refused = run(stdin=source)
    assert refused.code == 1
    assert "unregistered" in refused.err
    assert run("--allow-unregistered-dialect", stdin=source).code == 0


def test_ops_of_dm_are_registered_even_then(run: Runner) -> None:
    outcome = run("--allow-unregistered-dialect", stdin='func.func @f() { "dm.nonesuch"() : () -> () return }')
    assert outcome.code == 1
    assert "dm.nonesuch" in outcome.err


def test_list_passes(run: Runner) -> None:
    outcome = run("--list-passes")
    lines = outcome.out.splitlines()
    at = lines.index("--dm-verify-form  Changes nothing; fails where the module is not in the form named `form`.")
    assert lines[at + 1] == "    form: str"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nonesuch"], "'nonesuch' does not refer to a registered pass"),
        (["--dm-nonesuch"], "dm-nonesuch: no such pass"),
        (["--dm-verify-form=shape=imported"], "dm-verify-form: no option 'shape'"),
        (["--dm-verify-form=form=nonesuch"], "no form 'nonesuch'"),
        (["--from=nonesuch"], "no form 'nonesuch'"),
        (["--from=planned", "--to=imported"], "form 'imported' comes before form 'planned'"),
        (["--cse", "--from=imported"], "both passes and --from/--to"),
        (["--cse", "-p", "cse"], "both -p and --cse"),
        (["--verify-each=perhaps"], "--verify-each expects true or false, got 'perhaps'"),
        (["one.mlir", "two.mlir"], "expected one input file, got also two.mlir"),
        (["/nonesuch/in.mlir"], "/nonesuch/in.mlir: No such file or directory"),
        (["-o", "/nonesuch/out.mlir"], "/nonesuch/out.mlir: No such file or directory"),
    ],
)
def test_a_command_line_that_does_not_fit(run: Runner, arguments: list[str], message: str) -> None:
    outcome = run(*arguments, stdin=TWO_NEGATIONS)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: ")
    assert message in outcome.err


def test_the_tool_starts_without_torch() -> None:
    """Importing torch takes longer than all that the tool does with a small module."""
    # Names every module it imports on stderr.
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", str(TOOL)], input=TWO_NEGATIONS, text=True, capture_output=True, check=True
    )
    modules = {line.rpartition("|")[2].strip() for line in traced.stderr.splitlines()}
    assert "dmc.cli.opt" in modules
    assert not {"torch", "iree.compiler", "iree.runtime"} & modules


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"for i in 1 2 3; do cat; done | {sys.executable} {TOOL} | true"
    result = subprocess.run(command, shell=True, input=TWO_NEGATIONS, text=True, capture_output=True, check=False)
    assert result.stderr == ""
