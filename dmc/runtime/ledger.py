"""The ledger of a step: its movements between ranks as text, and as JSON in its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dmc.runtime.movements import Bound, Entry, Movements


@dataclass(frozen=True)
class Ledger(Movements):
    """The movements of one step, to be shown and stored."""

    def table(self, every: bool = False, width: int = 160) -> str:
        """The ledger as text of `width` columns: one line for movements that differ only in their layer number, or one
        per movement (`every`); then the totals.
        """
        from dmc.runtime.ledger_table import table

        return table(self, every, width)

    def to_json(self) -> dict[str, Any]:
        """The ledger as plain JSON values."""
        return json.loads(json.dumps(asdict(self)))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Ledger:
        """The inverse of `to_json`; raises KeyError or TypeError on a value of another shape."""
        return Ledger(
            mesh=dict(data["mesh"]),
            entries=tuple(Entry(**_with_tuples(entry, ("shape", "axes"))) for entry in data["entries"]),
            ranks=tuple(data["ranks"]),
            bounds=tuple(Bound(**_with_tuples(bound, ("axes",))) for bound in data["bounds"]),
        )


def _with_tuples(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: tuple(value) if name in names else value for name, value in data.items()}
