"""Tables as files, in the form of torch.distributed.pipelining: a row a rank, cells like `2F0`, an empty cell idle."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from dmc.errors import PlanError
from dmc.schedules.table import Action, Kind, Table

_CELL = re.compile(r"(\d+)([FBIW])(\d+)", re.ASCII)
# What PyTorch adds when it lowers a schedule: the compiler makes its own of these.
_LOWERED = re.compile(r"\d+(UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)\d*", re.ASCII)


def read_csv(text_or_path: str | Path) -> Table:
    """The table of a CSV file. A string with a comma or a line break is the text itself, any other one a path.

    A stage is on the rank of its first cell. Raises PlanError for a cell that is no action and for a stage without one.
    """
    rows = tuple(
        tuple(_action(rank, column, cell.strip()) for column, cell in enumerate(cells))
        for rank, cells in enumerate(_lines(text_or_path))
    )
    return Table(rows, _ranks_of(rows))


def write_csv(table: Table) -> str:
    """The text of a table as a CSV file, which `read_csv` and torch.distributed.pipelining read."""
    text = io.StringIO()
    lines = [["" if action is None else str(action) for action in row] for row in table.rows]
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _lines(text_or_path: str | Path) -> list[list[str]]:
    is_text = isinstance(text_or_path, str) and ("," in text_or_path or "\n" in text_or_path)
    if not is_text and not Path(text_or_path).is_file():
        hint = "give the path of a CSV file, or its text, with a row for each rank and cells like 2F0"
        raise PlanError(f"schedule '{text_or_path}'", "there is no such file", hint)
    text = str(text_or_path) if is_text else Path(text_or_path).read_text(encoding="utf-8")
    return list(csv.reader(text.rstrip().splitlines()))


def _action(rank: int, column: int, cell: str) -> Action | None:
    if not cell:
        return None
    if (found := _CELL.fullmatch(cell)) is not None:
        return Action(cast("Kind", found[2]), int(found[1]), int(found[3]))
    place = f"row {rank}, column {column}, '{cell}'"
    if "OVERLAP" in cell:
        fact = "is a pair of overlapped actions (OVERLAP_F_B)"
        raise PlanError(
            place, fact, hint="write the two as cells of their own; what may overlap is the compiler's choice"
        )
    if (lowered := _LOWERED.fullmatch(cell)) is not None:
        fact = f"is an action of PyTorch's lowered form ({lowered[1]})"
        raise PlanError(place, fact, hint="give the table before lowering: messages and gathers are the compiler's")
    raise PlanError(place, "is no action", hint="a cell is stage, F, B, I or W, and micro-batch, like 2F0, or empty")


def _ranks_of(rows: Sequence[Sequence[Action | None]]) -> tuple[int, ...]:
    owners: dict[int, int] = {}
    cells = {
        action: f"row {rank}, column {column}, {action}"
        for rank, row in enumerate(rows)
        for column, action in enumerate(row)
        if action is not None
    }
    for rank, row in enumerate(rows):
        for action in row:
            if action is not None:
                owners.setdefault(action.stage, rank)
    if not owners:
        raise PlanError("schedule", "has no action", hint="give a row for each rank with cells like 2F0")
    last = max(cells, key=lambda action: action.stage)
    missing = [stage for stage in range(last.stage) if stage not in owners]
    if missing:
        fact = f"stage {last.stage} has an action, and stage {missing[0]} has none"
        raise PlanError(cells[last], fact, hint=f"number stages from 0 on: add the actions of stage {missing[0]}")
    return tuple(owners[stage] for stage in range(last.stage + 1))
