"""`dmc-opt`: reads MLIR, runs passes on it, prints it. Like `mlir-opt`, with dmc's passes as well as upstream's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from dmc import dialect, pipeline
from dmc._mlir import ir
from dmc.cache import Cache, using
from dmc.cli.mlir_text import text_of
from dmc.cli.opt_arguments import Arguments, parse_arguments
from dmc.cli.opt_diagnostics import Collector, Diagnostic, custom_syntax, from_error, render
from dmc.cli.opt_expectations import check
from dmc.dialect.symbols import verify_symbols
from dmc.errors import DmcError, PipelineError
from dmc.passes.base import REGISTRY, run_passes
from dmc.printer import printed

SPLIT_MARKER = "// -----"


def main(argv: list[str] | None = None) -> int:
    """The exit code: 0, or 1 after any error reported on stderr."""
    try:
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
        if arguments.list_passes:
            print("\n".join(list_passes()))
            return 0
        source = _read(arguments.input)
        with using(Cache.of(os.environ)):
            output, succeeded = _process_all(arguments, source)
        _write(arguments.output, output)
    except PipelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # `dmc-opt … | head` ends quietly, as other filters do; the interpreter still flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0 if succeeded else 1


def list_passes() -> Iterator[str]:
    """Every pass of dmc with its summary and, indented, its options."""
    for name in sorted(REGISTRY):
        yield f"--{name}  {REGISTRY[name].summary()}"
        yield from (f"    {option}" for option in REGISTRY[name].describe_options())


def split_input(source: str) -> list[str]:
    """The parts of `source` between split markers, each padded with blank lines to preserve line numbers."""
    parts: list[str] = []
    lines: list[str] = []
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        if line.rstrip() == SPLIT_MARKER:
            parts.append("".join(lines))
            lines = ["\n" * number]
        else:
            lines.append(line)
    return [*parts, "".join(lines)]


def _process_all(arguments: Arguments, source: str) -> tuple[str, bool]:
    file = "<stdin>" if arguments.input == "-" else arguments.input
    parts = split_input(source) if arguments.split_input_file else [source]
    outputs: list[str] = []
    succeeded = True
    for part in parts:
        # A fresh context for each part, as in mlir-opt: one part cannot affect how the next is parsed.
        with ir.Context() as context, ir.Location.unknown():
            collector = Collector()
            output = _process(arguments, context, collector, part)
            diagnostics = collector.take()
        if arguments.verify_diagnostics:
            diagnostics = check(part, file, diagnostics)
            succeeded = succeeded and not diagnostics
        else:
            succeeded = succeeded and output is not None
        for diagnostic in diagnostics:
            print(render(diagnostic, file, part), file=sys.stderr)
        outputs += [] if output is None else [output]
    return f"{SPLIT_MARKER}\n".join(outputs), succeeded


def _process(arguments: Arguments, context: ir.Context, collector: Collector, source: str) -> str | None:
    # One thread: reports appear in pass order, and the same input gives the same bytes.
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = arguments.allow_unregistered_dialect
    dialect.load(context)
    collector.attach(context)
    try:
        module = _parse(arguments, source)
        if not arguments.allow_undefined_symbols:
            verify_symbols(module)
        _run(arguments, module)
    except PipelineError:
        raise
    except DmcError as error:
        collector.diagnostics.append(from_error(error))
        return None
    except ir.MLIRError as error:
        if not collector.has_errors():
            # MLIR says nothing about custom syntax of a dialect that has none.
            diagnostic = custom_syntax(source) or Diagnostic("error", None, str(error))
            collector.diagnostics.append(diagnostic)
        return None
    if arguments.for_people:
        return printed(module)
    return module.operation.get_asm(
        enable_debug_info=arguments.passes.print_debug_info, print_generic_op_form=arguments.passes.print_generic
    )


def _parse(arguments: Arguments, source: str) -> ir.Module:
    if arguments.split_input_file or arguments.input == "-":
        return ir.Module.parse(source)
    return ir.Module.parseFile(arguments.input)


def _run(arguments: Arguments, module: ir.Module) -> None:
    if arguments.from_form or arguments.to_form:
        pipeline.run(module, arguments.from_form, arguments.to_form, options=arguments.passes)
    elif arguments.elements:
        run_passes(module, arguments.elements, arguments.passes)


def _read(path: str) -> str:
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return text_of(data, "<stdin>" if path == "-" else path)


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    Path(path).write_text(text, encoding="utf-8")
