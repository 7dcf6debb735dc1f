"""Diagnostics of `dmc-opt`: MLIR's and dmc's own errors as frozen values, printed in compiler style."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dmc._mlir import ir
from dmc.errors import DmcError

# MLIR's name for a buffer passed as text.
BUFFER = "-"

_FILE_LINE_COLUMN = re.compile(r'"([^"]*)":(\d+):(\d+)')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|//.*')
_CUSTOM = re.compile(r"(?<![\w#!.@%])(dm\.\w+)")
_LOCATED = re.compile(r"(?P<location>loc\(.*\)): (?P<name>[^\s()]+)$", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """A file, and a line and column that count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Diagnostic:
    """One report: `severity` is error, warning, remark or note; `place` is None where none is known."""

    severity: str
    place: Place | None
    message: str
    hint: str = ""
    notes: tuple[Diagnostic, ...] = ()


def from_mlir(diagnostic: Any) -> Diagnostic:
    """A copy of an MLIR diagnostic, which is valid only inside the handler that receives it."""
    return Diagnostic(
        severity=diagnostic.severity.name.lower(),
        place=place_of(str(diagnostic.location)),
        message=diagnostic.message,
        notes=tuple(from_mlir(note) for note in diagnostic.notes),
    )


def from_error(error: DmcError) -> Diagnostic:
    """An error raised by a pass or verifier of dmc."""
    located = _LOCATED.match(error.place)
    name = located["name"] if located else error.place
    message = f"{name}: {error.fact}" if name else error.fact
    return Diagnostic("error", place_of(located["location"]) if located else None, message, error.hint)


def place_of(location: str) -> Place | None:
    """The first file, line and column in the text of an MLIR location; for a call site, that of the callee."""
    found = _FILE_LINE_COLUMN.search(location)
    if found is None or found[2] == "0":
        return None
    return Place(found[1], int(found[2]), int(found[3]))


def custom_syntax(source: str) -> Diagnostic | None:
    """The first operation of dmc's dialect in `source` that is not written in generic syntax, if there is one."""
    for number, line in enumerate(source.splitlines(), 1):
        # Strings and comments may contain anything.
        bare = _QUOTED.sub(lambda text: " " * len(text[0]), line)
        if (found := _CUSTOM.search(bare)) is not None:
            name, column = found[1], found.start(1) + 1
            hint = f'write "{name}"(operands) {{attributes}} : (types) -> types; docs/dialect.md lists the attributes'
            return Diagnostic(
                "error", Place(BUFFER, number, column), f"{name}: this dialect has generic syntax only", hint
            )
    return None


class Collector:
    """Receives the diagnostics of a context, in order."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def attach(self, context: ir.Context) -> None:
        """Takes over the diagnostics of `context`; without this MLIR keeps errors inside the exception."""
        context.emit_error_diagnostics = True
        context.attach_diagnostic_handler(self._receive)

    def has_errors(self) -> bool:
        """Whether an error arrived since the last `take`."""
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def take(self) -> list[Diagnostic]:
        """The diagnostics since the last call."""
        taken, self.diagnostics = self.diagnostics, []
        return taken

    def _receive(self, diagnostic: Any) -> bool:
        self.diagnostics.append(from_mlir(diagnostic))
        return True


def render(diagnostic: Diagnostic, file: str, source: str) -> str:
    """`file:3:8: error: message`, the line of `source` with a caret below it, the notes, then the hint.

    A place in the input buffer is shown with the input's name `file`.
    """
    lines = [f"{_where(diagnostic.place, file)}{diagnostic.severity}: {diagnostic.message}"]
    lines += _caret(diagnostic.place, file, source)
    lines += [render(note, file, source) for note in diagnostic.notes]
    if diagnostic.hint:
        lines.append(f"  hint: {diagnostic.hint}")
    return "\n".join(lines)


def _where(place: Place | None, file: str) -> str:
    if place is None:
        return ""
    return f"{file if place.file == BUFFER else place.file}:{place.line}:{place.column}: "


def _caret(place: Place | None, file: str, source: str) -> list[str]:
    if place is None or place.file not in (BUFFER, file):
        return []
    line = "".join(source.splitlines()[place.line - 1 : place.line])
    indent = re.sub(r"[^\t]", " ", line[: place.column - 1])
    return [line, f"{indent}^"] if line else []
