"""`dmc compile my_module:make_step -o step.dmc`: compiles what a Python function describes and writes the file.

Command-line options override the function's values.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dmc
from dmc.cli.meshes import mesh_from, plan_from
from dmc.cli.source import as_keywords, check_keywords, function_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.program.sizes import size_of, size_text
from dmc.program.tuning import TUNED
from dmc.progress import shown
from dmc.runtime import Step

if TYPE_CHECKING:
    from dmc.observer import Observer
    from dmc.runtime import Artifact

# The keyword arguments of dmc.compile that are also command-line options.
_KEYWORDS = ("mesh", "plan", "target", "executor", "machine", "memory_cap", "tuning", "dump_dir", "verify")


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("compile", help="compile a training step", description=__doc__)
    parser.add_argument("source", metavar="module:function", help="returns the keyword arguments of dmc.compile")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the .dmc file to write")
    parser.add_argument("--mesh", metavar="AXES", help="the ranks that train together, for example dp=2 or dp=2,tp=4")
    parser.add_argument(
        "--plan", metavar="PLANS", help="ready plans over the mesh, for example zero2 or zero2+megatron:tp"
    )
    parser.add_argument("--target", metavar="TARGET", help="cpu, cuda, cpu+cuda or, for example, cpu:x86-64-v3")
    parser.add_argument("--executor", metavar="NAME", help="on a GPU: static (one CUDA graph) or iree (IREE's runtime)")
    parser.add_argument(
        "--machine", metavar="MACHINE", help="the machine to plan for: h200x4, or a file of dmc calibrate"
    )
    parser.add_argument(
        "--memory-cap", metavar="SIZE", help="device memory that a rank may use, for example 80GB or 4096"
    )
    table = f"a table of dmc tune, for code for a GPU; by default the output's name with {TUNED}, if that exists"
    parser.add_argument("--tuning", metavar="FILE", help=table)
    parser.add_argument("--dump-dir", metavar="DIR", help="write the IR of every form into this directory")
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        help="compare the first steps with PyTorch eager's at any cost; by default only where it is cheap",
    )
    parser.add_argument(
        "--no-weights", action="store_true", help="leave the weights out of the file: dmc run takes --weights"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    output = Path(arguments.output)
    if not output.resolve().parent.is_dir():
        raise DmcError(str(output), "its directory does not exist", hint="create the directory first")
    make_step = function_of(arguments.source)
    with shown(not arguments.quiet) as observer:
        observer.plan(["build model", "write"])
        with observer.stage("build model"):
            made = make_step()
        artifact = _artifact(made, arguments, observer)
        with observer.stage("write"):
            artifact.write(output, weights=not arguments.no_weights)
    if not arguments.quiet:
        print(f"{output}: {size_text(output.stat().st_size)}, {len(artifact.signature.state)} state tensors")
    return 0


def _artifact(made: Any, arguments: argparse.Namespace, observer: Observer) -> Artifact:
    given = {name: value for name in _KEYWORDS if (value := getattr(arguments, name)) is not None}
    if isinstance(made, Step):
        if given:
            options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
            fact = f"returned a step that is already compiled, so {options} cannot apply"
            raise DmcError(arguments.source, fact, hint="return the keyword arguments of dmc.compile as a dict")
        return made.snapshot()
    keywords = {**as_keywords(made, arguments.source), **given}
    if "memory_cap" in given:
        keywords["memory_cap"] = size_of(given["memory_cap"], "--memory-cap")
    if "mesh" in given:
        keywords["mesh"] = mesh_from(given["mesh"])
    if "plan" in given:
        mesh = keywords.get("mesh") or getattr(keywords.get("plan"), "mesh", None)
        if not isinstance(mesh, Mesh):
            raise DmcError(f"--plan {given['plan']}", "is given without a mesh", hint="add --mesh, say, --mesh dp=2")
        keywords["plan"] = plan_from(given["plan"], mesh)
    beside = Path(arguments.output).with_suffix(TUNED)
    if "tuning" not in keywords and beside.exists() and "cuda" in str(keywords.get("target", "")).split("+"):
        keywords["tuning"] = str(beside)
    check_keywords(keywords, arguments.source)
    # Imported here: only this command needs the compiler. The device is not opened: it may be in another machine.
    return dmc.compile_artifact(**keywords, observer=observer)
