"""The origin of an operation: the module path in the model and the line of Python that called it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import torch
from torch import fx, nn
from torch._ops import OpOverload

import dmc

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_LIBRARIES = tuple(str(Path(file).parent) + os.sep for file in (torch.__file__, dmc.__file__))
_PYTHON = str(Path(os.__file__).parent) + os.sep
META_KEY = "dmc_origin"
# The number of the checkpoint (torch.utils.checkpoint) of which an exported node is a part.
CHECKPOINT_KEY = "dmc_checkpoint"

Part = Literal["", "backward", "update"]


@dataclass(frozen=True)
class Origin:
    """`module` is the path in the user's model ("" for the model itself, "loss" for a loss function beside it), `file`
    and `line` the innermost line of user code.

    part: "backward" where the operation belongs to the gradient of that line; "update" where it belongs to the
    optimizer, and `module` is the path of the parameter, or "optimizer". checkpoint: the number of the checkpoint of
    which it is a part; 0 for none.
    """

    module: str
    file: str
    line: int
    part: Part = ""
    checkpoint: int = 0

    @property
    def suffix(self) -> str:
        """What follows the operation's name in its location."""
        own = self.part or (f"checkpoint {self.checkpoint}" if self.checkpoint else "")
        return f", {own}" if own else ""

    def __str__(self) -> str:
        if self.part == "update":
            return f"update of {self.module}"
        module = f"module '{self.module}'" if self.module else "the model or its loss"
        return f"{module} ({self.file}:{self.line})" if self.file else module


NOWHERE = Origin("", "", 0)


def of_exported_node(node: fx.Node, prefix: str) -> Origin:
    """The origin that export recorded on `node`; `prefix` is the path of the user's model in the exported one."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    module = paths[-1] if paths else ""
    # Generated code has a file name like `<string>`, and no lines to look at.
    frames = [frame for frame in _FRAME.findall(node.meta.get("stack_trace") or "") if not frame[0].startswith("<")]
    own = [frame for frame in frames if not is_library(frame[0])]
    file, line = (own or frames or [("", 0)])[-1]
    checkpoint = (node.meta.get("custom") or {}).get(CHECKPOINT_KEY, 0)
    # While export traces, paths begin with the name of its root.
    module = module.removeprefix("_export_root").removeprefix(".")
    return Origin(_without_prefix(module, prefix), file, int(line), checkpoint=checkpoint)


def of_node(node: fx.Node) -> Origin:
    """The origin of a node of a traced graph, preserved by differentiation; NOWHERE if it has none."""
    return (node.meta.get("custom") or {}).get(META_KEY, NOWHERE)


def of_exception(error: BaseException, root: nn.Module, prefix: str = "") -> Origin:
    """The innermost module call and line of the user's code on the traceback of `error`; `prefix` as before."""
    names: dict[int, str] = {id(module): name for name, module in root.named_modules()}
    module, file, line = "", "", 0
    for frame in frames(error.__traceback__):
        owner: Any = frame.tb_frame.f_locals.get("self")
        if isinstance(owner, nn.Module) and names.get(id(owner)):
            module = _without_prefix(names[id(owner)], prefix)
        if not is_library(frame.tb_frame.f_code.co_filename):
            file, line = frame.tb_frame.f_code.co_filename, frame.tb_lineno
    return Origin(module, file, line)


def is_library(file: str) -> bool:
    """Whether `file` belongs to PyTorch, dmc or Python, or is no file (generated code)."""
    is_installed = "site-packages" in file or "dist-packages" in file
    return file.startswith((*_LIBRARIES, "<")) or (file.startswith(_PYTHON) and not is_installed)


def op_name(target: Any) -> str:
    """The name that users know: "aten.nonzero" for an ATen overload."""
    if isinstance(target, OpOverload):
        return str(target).removesuffix(".default")
    return getattr(target, "__name__", str(target))


def frames(traceback: TracebackType | None) -> list[TracebackType]:
    """Those of a traceback, outermost first."""
    found: list[TracebackType] = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def _without_prefix(path: str, prefix: str) -> str:
    return "" if path == prefix else path.removeprefix(f"{prefix}.")
