"""Schedules of pipelines as plain data: which action of which stage and micro-batch each rank runs, in which order.

`schedule(name, …)` makes a named one, `read_csv` reads one from a file; `check` refuses one that is wrong, `play` says
how long it takes and what it keeps; `searched` makes one for given costs and memory. Needs neither MLIR nor PyTorch.
"""

from __future__ import annotations

from dmc.schedules.checking import check
from dmc.schedules.costs import Costs, equal_costs
from dmc.schedules.files import read_csv, write_csv
from dmc.schedules.formulas import idle_formula
from dmc.schedules.named import NAMES, SEARCHED, schedule
from dmc.schedules.playing import Played, Span, play
from dmc.schedules.search.searched import Effort, layout, searched, searched_by_name
from dmc.schedules.table import Action, Kind, Table

__all__ = [
    "NAMES",
    "SEARCHED",
    "Action",
    "Costs",
    "Effort",
    "Kind",
    "Played",
    "Span",
    "Table",
    "check",
    "equal_costs",
    "idle_formula",
    "layout",
    "play",
    "read_csv",
    "schedule",
    "searched",
    "searched_by_name",
    "write_csv",
]
