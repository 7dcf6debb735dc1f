"""IREE's code of kernels that this process has compiled before, found by their bodies.

Several programs of one model, models with equal layers, and plans of one model have kernels in common, under other
names. Code is kept with the names that it was compiled under, and given out with those that are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from dmc.lowering.kernel_code import CodeLibrary, Dispatch, Group, KernelCode, KernelCommand, leaves
from dmc.lowering.kernels.kernel_reader import merged
from dmc.memo import Memo

# Kernels have some thousand characters of code each; those with large constants are not kept.
_MOST, _LONGEST = 4096, 1 << 18


@dataclass
class KnownKernels:
    """Code by body; what was not used for longest is forgotten."""

    _kept: Memo[Hashable, CodeLibrary] = field(default_factory=lambda: Memo(_MOST))

    def library(
        self, bodies: Mapping[str, str], how: Hashable, make: Callable[[frozenset[str]], CodeLibrary]
    ) -> CodeLibrary:
        """The code of kernels, by name. bodies: their text without their names. how: what else determines code.

        `make` compiles those that are not known, all together; its CodegenError is raised.
        """
        keys = {name: (hashlib.sha256(body.encode()).digest(), how) for name, body in bodies.items()}
        found = {name: self._kept.find(key) for name, key in keys.items()}
        missing = frozenset(name for name, part in found.items() if part is None)
        # Without kernels, what is made still says what the device is.
        made = make(missing) if missing or not bodies else CodeLibrary("", {}, {})
        for name in missing:
            found[name] = part = _only(made, name)
            if sum(map(len, part.executables.values())) <= _LONGEST:
                self._kept.keep(keys[name], part)
        parts = [_named(part, name) for name, part in found.items() if part is not None]
        library = reduce(CodeLibrary.joined, parts, replace(made, kernels={}, executables={}))
        names, executables = merged(library.executables)
        kernels = {name: _with_executables(code, name, names) for name, code in library.kernels.items()}
        return replace(library, kernels=kernels, executables=executables)


def _only(library: CodeLibrary, name: str) -> CodeLibrary:
    """The code of one kernel."""
    code = library.kernels[name]
    return replace(library, kernels={name: code}, executables={n: library.executables[n] for n in _used(code)})


def _used(code: KernelCode) -> list[str]:
    """The executables of a kernel, in the order of its dispatches."""
    return list(dict.fromkeys(each.executable for each in leaves(code.commands) if isinstance(each, Dispatch)))


def _named(part: CodeLibrary, name: str) -> CodeLibrary:
    """The code of a kernel under another name, after which its executables are called."""
    (code,) = part.kernels.values()
    names = {old: f"{name}_dispatch_{number}" for number, old in enumerate(_used(code))}
    texts = {new: part.executables[old].replace(f"@{old}", f"@{new}") for old, new in names.items()}
    return replace(part, kernels={name: _with_executables(code, name, names)}, executables=texts)


def _with_executables(code: KernelCode, name: str, names: Mapping[str, str]) -> KernelCode:
    """The code of a kernel, with other names for itself and for executables and their entries."""

    def renamed(command: KernelCommand) -> KernelCommand:
        if isinstance(command, Group):
            return Group(tuple(map(renamed, command.commands)))
        if isinstance(command, Dispatch):
            new = names[command.executable]
            return replace(command, executable=new, entry=f"{new}{command.entry.removeprefix(command.executable)}")
        return command

    return replace(code, name=name, commands=tuple(map(renamed, code.commands)))
