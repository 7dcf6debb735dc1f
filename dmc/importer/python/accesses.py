"""The module attributes that a traced forward pass reads before it writes them: these carry state from one call to the
next, while those written first hold only values of this call.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal
from unittest import mock

from torch import nn

from dmc.importer import origin
from dmc.importer.torch_internals import caller, is_of_module_class

First = Literal["read", "written"]


@dataclass
class Accesses:
    """first: the first access to a module attribute; one that is written after the module's `__dict__` was handed out
    counts as read. lines: the file and line of its last assignment."""

    first: dict[tuple[int, str], First] = field(default_factory=dict)
    lines: dict[tuple[int, str], tuple[str, int]] = field(default_factory=dict)

    def is_scratch(self, owner: Any, attribute: str) -> bool:
        """Whether the attribute was written before anything read it."""
        return self.first.get((id(owner), attribute)) == "written"

    def place(self, owner: Any, path: str, attribute: str) -> str:
        """The place of the attribute's assignment, for errors."""
        file, line = self.lines.get((id(owner), attribute), ("", 0))
        return str(origin.Origin(path, file, line))

    @contextmanager
    def watched(self) -> Generator[None]:
        """Records attribute accesses of all modules."""
        set_attribute = nn.Module.__setattr__

        def get(module: nn.Module, name: str) -> Any:
            # PyTorch's own look-ups use `__dict__`; in any other hands it exposes every attribute.
            if name != "__dict__" or not is_of_module_class(caller(1)):
                self.first.setdefault((id(module), name), "read")
            return object.__getattribute__(module, name)

        def put(module: nn.Module, name: str, value: Any) -> None:
            exposed = (id(module), "__dict__") in self.first
            self.first.setdefault((id(module), name), "read" if exposed else "written")
            self.lines[id(module), name] = _line(caller(1))
            set_attribute(module, name, value)

        with mock.patch.object(nn.Module, "__getattribute__", get), mock.patch.object(nn.Module, "__setattr__", put):
            yield


def _line(frame: FrameType | None) -> tuple[str, int]:
    """The innermost line outside of libraries."""
    while frame is not None and origin.is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)
