"""What a line of a program may be: a template of Python for each operator, in `expressions.txt` and `statements.txt`.

A hole in braces is an operand: `float`, `int`, `number` (one of these), `bool`, `index` (int64, not negative) or `any`,
followed by the least rank, if any. `like` is a number and `mask` a bool that may be broadcast with the first operand;
`same` is of its shape and type. `own` and `own_int` may be written in place; `buffer`, `parameter` and `input` are
leaves. `{0}` is the first operand again, `{1}` the second.

Filters and the weights of normalisations are finite: where one is not, the order of factors, which each kernel of
PyTorch chooses for itself, decides between NaN and infinity. So are operands whose NaN, or infinity, PyTorch's code for
vectors and its code for what is left over take differently.

What batch normalisation and `max_pool1d` read is contiguous: of a transposed tensor PyTorch lays out their results in
one way on a CPU, and in another on a GPU, in `torch.export` and so in dmc.

A hole in angle brackets is a constant; `constants.py` says which there are. What fails in eager is drawn anew.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent
HOLE = re.compile(r"\{(\w+)\}|<(\w+)>")


def _table(file: str) -> dict[str, str]:
    """Templates by the names of their operators."""
    rows = [line.partition(": ") for line in (FOLDER / file).read_text(encoding="utf-8").splitlines()]
    table = {name: template for name, _, template in rows}
    assert len(table) == len(rows), f"{file}: an operator has two templates"
    return table


# What gives tensors, and what changes a tensor or the state.
EXPRESSIONS = _table("expressions.txt")
STATEMENTS = _table("statements.txt")
EVERY = {**EXPRESSIONS, **STATEMENTS}


def of_turn(turn: int) -> str:
    """The operator whose turn it is: each of the table in turn, in an order that mixes them."""
    return sorted(EVERY)[turn * 7919 % len(EVERY)]
