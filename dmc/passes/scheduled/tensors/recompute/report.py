"""What dm-recompute prints: what could be made again, its bytes, and what was decided."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from dmc._mlir import ir
from dmc.dialect.labels import module_path
from dmc.passes.scheduled.tensors.recompute.cut import Cut
from dmc.passes.shared.report import print_table

HEAD = ("values of", "regions", "bytes freed", "bytes moved", "made from", "decision")
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.,])")


def print_reasons(cuts: Sequence[Cut]) -> None:
    """Prints on stderr each region whose values could be made again, equal ones as one row, the largest first."""
    rows: Counter[tuple[str, str, int, int, bool]] = Counter()
    for cut in cuts:
        rows[_names(cut.gone), _names(cut.kept), cut.freed, cut.moved, cut.pays] += 1
    ordered = sorted(rows.items(), key=lambda row: (-row[0][2] * row[1], row[0]))
    print_table(
        HEAD,
        [
            (again, count, f"{freed * count:,}", f"{moved * count:,}", kept, _decision(pays))
            for (again, kept, freed, moved, pays), count in ordered
        ],
    )
    taken = [cut for cut in cuts if cut.pays]
    sums = sum(cut.freed for cut in taken), sum(cut.moved for cut in taken)
    print(f"{sums[0]:,} bytes freed between the passes, {sums[1]:,} bytes more moved", file=sys.stderr)


def _decision(pays: bool) -> str:
    return "made again" if pays else "kept: moves more than it frees"


def _names(values: Iterable[ir.Value]) -> str:
    """The modules that compute values, layers abbreviated."""
    names = (_NUMBER.sub("*", _name(value)) for value in values)
    return ", ".join(dict.fromkeys(filter(None, names)))


def _name(value: ir.Value) -> str:
    return "" if isinstance(value.owner, ir.Block) else module_path(value.owner.location)
