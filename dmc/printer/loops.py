"""The bodies of `linalg.generic` as expressions: `each i, j: %2[i, j] + %3[j]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dmc._mlir import ir
from dmc.printer.attributes import type_text
from dmc.printer.formats import rest, shown_attributes
from dmc.printer.scopes import EMPTY, Scope, stands_for
from dmc.walk import loop_kinds, terminator_of

_LETTERS = "ijklmnopqr"
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_SIGNED = {f"arith.{word}{kind}": sign for word, sign in _SIGNS.items() for kind in "fi"}
_CONVERSIONS = ("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast")
_FLOATS = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
_INTEGERS = "eq ne slt sle sgt sge ult ule ugt uge".split()
_MOST = 90


def is_scalar(op: ir.Operation) -> bool:
    """Whether nothing in the body of a `linalg.generic` has a body of its own."""
    return not any(len(each.regions) for each in op.regions[0].blocks[0].operations)


def loop_lines(op: ir.Operation, scope: Scope) -> list[str]:
    """A `linalg.generic` in one line, if its body is one short expression, or with lines for the parts of its body."""
    kinds, maps = loop_kinds(op), [str(each) for each in op.attributes["indexing_maps"]]
    letters = [_LETTERS[i] if i < len(_LETTERS) else f"i{i}" for i in range(len(kinds))]
    places = [_place(each, letters) for each in maps]
    body, results = op.regions[0].blocks[0], len(op.results)
    known = dict(scope.known)
    inputs = len(op.operands) - results
    for argument, operand, place in zip(body.arguments, op.operands, places, strict=True):
        number = argument.arg_number - inputs
        known[argument] = scope.text(operand) + place if number < 0 else "out" if results == 1 else f"out{number}"
    inner = replace(scope, known=known)
    head = _head(op, letters, places, scope)
    lines = _body(body, inner, letters)
    last = ", ".join(inner.text(each) for each in terminator_of(body).operands)
    if not lines and len(head) + len(last) <= _MOST:
        return [f"{head}: {last}"]
    return [f"{head}:", *(f"  {each}" for each in [*lines, f"yield {last}"])]


def _place(indexing: str, letters: Sequence[str]) -> str:
    """`[i, j]` for `affine_map<(d0, d1) -> (d0, d1)>`; nothing for a scalar."""
    indices = indexing.removeprefix("affine_map<").rpartition(">")[0].partition("->")[2].strip()[1:-1]
    for i in reversed(range(len(letters))):
        indices = indices.replace(f"d{i}", letters[i])
    return f"[{indices}]" if indices else ""


def _head(op: ir.Operation, letters: Sequence[str], places: Sequence[str], scope: Scope) -> str:
    """`each i, j over k from %3 at [j, i]`: the loops, what they begin with, and where they write if not in order."""
    kinds = loop_kinds(op)
    parallel = [letter for letter, kind in zip(letters, kinds, strict=True) if kind == "parallel"]
    reduced = [letter for letter, kind in zip(letters, kinds, strict=True) if kind != "parallel"]
    head = " ".join(["each", ", ".join(parallel)] if parallel else ["once"])
    if reduced:
        head += f" over {', '.join(reduced)}"
    results = len(op.results)
    for operand, place in zip(list(op.operands)[-results:], places[-results:], strict=True):
        started = scope.text(operand)
        if started != EMPTY and _reads(op):
            head += f" from {started}"
        if place and place != f"[{', '.join(parallel)}]":
            head += f" at {place}"
    return head


def _reads(op: ir.Operation) -> bool:
    """Whether the body reads what was there before."""
    body = op.regions[0].blocks[0]
    return any(list(argument.uses) for argument in list(body.arguments)[-len(op.results) :])


def _body(body: ir.Block, scope: Scope, letters: Sequence[str]) -> list[str]:
    """Lines for what is read more than once; the rest becomes known to `scope`."""
    lines: list[str] = []
    for each in list(body.operations)[:-1]:
        op = each.operation
        if stands_for(op) is not None:
            continue
        text = expression(op, scope, letters)
        if len(op.results) == 1 and len(list(op.results[0].uses)) == 1 and len(text) <= _MOST:
            infix = op.name in _SIGNED and next(op.results[0].uses).owner.operation.name in _SIGNED
            scope.known[op.results[0]] = f"({text})" if infix else text
        else:
            lines.append(f"{', '.join(map(scope.name, op.results))} = {text}")
    return lines


def expression(op: ir.Operation, scope: Scope, letters: Sequence[str] = ()) -> str:
    """A scalar operation: `a + b`, `exp(a)`, `olt(a, b)`, `extf(a, f64)`."""
    operands, name = [scope.text(each) for each in op.operands], op.name.partition(".")[2]
    if op.name in _SIGNED:
        return f"{operands[0]} {_SIGNED[op.name]} {operands[1]}"
    if op.name == "linalg.index":
        return str(letters[op.attributes["dim"].value])
    if name in ("cmpf", "cmpi"):
        return f"{(_FLOATS if name == 'cmpf' else _INTEGERS)[op.attributes['predicate'].value]}({', '.join(operands)})"
    if name in _CONVERSIONS:
        operands.append(type_text(op.results[0].type))
    return f"{name}({', '.join(operands)}){rest(shown_attributes(op))}"
