"""The distribution that pip installs: its name on package indexes, and the command that brings one of its extras."""

from __future__ import annotations

# The import is `dmc`; that name is another project's on package indexes.
NAME = "dmc-compiler"


def install(extra: str) -> str:
    """The command for a hint, as `pip install 'NAME[cuda]'`."""
    return f"pip install '{NAME}[{extra}]'"
