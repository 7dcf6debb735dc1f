"""The ledger of a step: its movements between ranks as text, and as JSON in its file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dmc.program.movements import Movements
from dmc.runtime.reports.report import Report, columns

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Ledger(Movements, Report):
    """The movements of one step, to be shown and stored: `print(ledger)`."""

    def table(self, every: bool = False, width: int | None = None, exact: bool = False) -> str:
        """The ledger as text of `width` columns, by default the terminal's: one line for movements that differ only in
        their layer number, or one per movement (`every`); then the totals. exact: sizes in bytes.
        """
        from dmc.runtime.reports.ledger_table import parts
        from dmc.runtime.reports.tables import as_text

        return as_text(parts(self, every, exact), columns() if width is None else width)

    def parts(self, exact: bool = False) -> Iterable[RenderableType]:
        """One line for movements that differ only in their layer number; then the totals."""
        from dmc.runtime.reports.ledger_table import parts

        return parts(self, every=False, exact=exact)

    def to_json(self) -> dict[str, Any]:
        """The ledger as plain JSON values."""
        return msgspec.to_builtins(self)
