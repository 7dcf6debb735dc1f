"""The command line of `dmc-opt`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmc.errors import PipelineError
from dmc.passes.base import Element, PassManagerOptions, parse_pipeline

_FLAGS = {
    "split-input-file": "treat the parts of the input between `// -----` lines as separate inputs",
    "verify-diagnostics": "check diagnostics against the `expected-error` comments of the input",
    "verify-each": "verify the module after each pass (the default; --verify-each=false disables it)",
    "mlir-print-ir-after-all": "print the module to stderr after each pass",
    "mlir-timing": "print the time of each pass to stderr",
    "mlir-print-op-generic": "print operations in their generic form",
    "mlir-print-debuginfo": "print locations",
    "for-people": "print a line for each operation, with names, types and operands beside each other, instead of MLIR",
    "allow-unregistered-dialect": "accept operations of unknown dialects",
    "allow-undefined-symbols": "accept fragments, whose meshes, channels, kernels or decompositions are elsewhere",
    "list-passes": "list the passes of dmc, with their options, and exit",
}

_EPILOG = """passes:
  --dm-x, --dm-x="option=1", --canonicalize   run one pass, dmc's or upstream's, in the order written
  -p 'dm-x{option=1},canonicalize'            run a list of passes, with or without builtin.module(...) around it
  --from=imported --to=planned                run the compiler's own stages between two forms
"""

_TRUTH = {"": True, "true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Arguments:
    """The parsed command line; `input` and `output` are paths or `-`."""

    input: str
    output: str
    elements: tuple[Element, ...]
    from_form: str | None
    to_form: str | None
    split_input_file: bool
    verify_diagnostics: bool
    allow_unregistered_dialect: bool
    allow_undefined_symbols: bool
    list_passes: bool
    for_people: bool
    passes: PassManagerOptions


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Reads the command line; raises PipelineError for a flag, pass or option that does not exist or does not apply."""
    flags, rest = _take_flags(_long(argument) for argument in argv)
    known, others = _parser().parse_known_args(rest)
    extra = [argument for argument in others if not argument.startswith("--")]
    if extra:
        raise PipelineError("dmc-opt", f"expected one input file, got also {' '.join(extra)}")
    if others and known.pass_pipeline is not None:
        raise PipelineError("dmc-opt", f"both -p and {others[0]}", "give all passes in one way or the other")
    elements = tuple(element for flag in others for element in _shorthand(flag))
    if known.pass_pipeline is not None:
        elements = parse_pipeline(known.pass_pipeline)
    if elements and (known.from_form or known.to_form):
        raise PipelineError("dmc-opt", "both passes and --from/--to", "run the passes in a separate dmc-opt")
    return Arguments(
        input=known.input,
        output=known.o,
        elements=elements,
        from_form=known.from_form,
        to_form=known.to_form,
        split_input_file=flags.get("split-input-file", False),
        verify_diagnostics=flags.get("verify-diagnostics", False),
        allow_unregistered_dialect=flags.get("allow-unregistered-dialect", False),
        allow_undefined_symbols=flags.get("allow-undefined-symbols", False),
        list_passes=flags.get("list-passes", False),
        for_people=flags.get("for-people", False),
        passes=PassManagerOptions(
            verify_each=flags.get("verify-each", True),
            print_ir_after_all=flags.get("mlir-print-ir-after-all", False),
            print_debug_info=flags.get("mlir-print-debuginfo", False),
            print_generic=flags.get("mlir-print-op-generic", False),
            timing=flags.get("mlir-timing", False),
        ),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "dmc-opt",
        description="Reads MLIR, runs passes of dmc and of upstream MLIR on it, and prints the result.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="?", default="-", help="an .mlir file; standard input by default")
    parser.add_argument("-o", default="-", metavar="FILE", help="where to write; standard output by default")
    parser.add_argument("-p", "--pass-pipeline", metavar="PIPELINE", help="the passes to run")
    parser.add_argument("--from", dest="from_form", metavar="FORM", help="the form of the input")
    parser.add_argument("--to", dest="to_form", metavar="FORM", help="the form to reach")
    for flag, text in _FLAGS.items():
        parser.add_argument(f"--{flag}", action="store_true", help=text)
    return parser


def _long(argument: str) -> str:
    # LLVM's tools also accept long options with one dash.
    return f"-{argument}" if re.match(r"-[A-Za-z][\w-]", argument) else argument


def _take_flags(argv: Iterable[str]) -> tuple[dict[str, bool], list[str]]:
    flags: dict[str, bool] = {}
    rest: list[str] = []
    for argument in argv:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or name not in _FLAGS:
            rest.append(argument)
        elif value not in _TRUTH or (equals and not value):
            raise PipelineError("dmc-opt", f"--{name} expects true or false, got '{value}'")
        else:
            flags[name] = _TRUTH[value]
    return flags, rest


def _shorthand(flag: str) -> tuple[Element, ...]:
    name, _, options = flag.removeprefix("--").partition("=")
    return parse_pipeline(f"{name}{{{options}}}" if options else name)
