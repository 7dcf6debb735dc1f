"""Reports: what `print` shows as text as wide as the terminal, and a notebook as HTML."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

# Columns without a terminal, as in a pipe, where nothing needs to be wrapped.
WIDE = 250


class Report:
    """The base of reports: text and tables, one below the other."""

    def parts(self, exact: bool = False) -> Iterable[RenderableType]:
        """What it consists of. exact: sizes in bytes, rather than in kB, MB or GB, by thousands."""
        raise NotImplementedError

    def text(self, width: int | None = None, exact: bool = False) -> str:
        """As text of at most `width` columns, by default those of the terminal."""
        # Rich takes a while to load, and only reports need it.
        from dmc.runtime.reports.tables import as_text

        return as_text(self.parts(exact), columns() if width is None else width)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from dmc.runtime.reports.tables import as_html

        return as_html(self.parts())


def columns(without: int = WIDE) -> int:
    """The columns of the terminal; `without` one, whatever COLUMNS says, this many."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else without
