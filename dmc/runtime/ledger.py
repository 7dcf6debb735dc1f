"""The ledger of a step: its movements between ranks as text, and as JSON in its file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dmc.runtime.movements import Bound, Entry, Movements
from dmc.runtime.report import Report, columns

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Ledger(Movements, Report):
    """The movements of one step, to be shown and stored: `print(ledger)`."""

    def table(self, every: bool = False, width: int | None = None, exact: bool = False) -> str:
        """The ledger as text of `width` columns, by default the terminal's: one line for movements that differ only in
        their layer number, or one per movement (`every`); then the totals. exact: sizes in bytes.
        """
        from dmc.runtime.ledger_table import parts
        from dmc.runtime.tables import as_text

        return as_text(parts(self, every, exact), columns() if width is None else width)

    def parts(self, exact: bool = False) -> Iterable[RenderableType]:
        """One line for movements that differ only in their layer number; then the totals."""
        from dmc.runtime.ledger_table import parts

        return parts(self, every=False, exact=exact)

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
            offloaded=tuple(data.get("offloaded", ())),
            fetched=tuple(data.get("fetched", ())),
        )


def _with_tuples(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: tuple(value) if name in names else value for name, value in data.items()}
