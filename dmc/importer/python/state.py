"""Python state around a model other than registered tensors: recorded before a trace, compared afterwards, and
restored, so that the user's objects are unchanged.
"""

from __future__ import annotations

import functools
import inspect
import io
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import nn

from dmc.errors import ImportFailure
from dmc.importer.python.attributes import Slots, attributes_of
from dmc.importer.torch_internals import REGISTRIES, storage_key, version

_MISSING = object()
_PRIMITIVES = (bool, int, float, complex, str, bytes, Enum, torch.dtype, torch.device, slice, range)
_CONTAINERS = (dict, list, set, deque, types.CellType)
_LIBRARIES = frozenset((*sys.stdlib_module_names, "torch"))
_WITHOUT_PARTS = (*_PRIMITIVES, type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)


@dataclass(frozen=True)
class Holder:
    """A place that Python code can write to: `contents` is its dictionary, slots, list, deque, set or closure cell,
    `before` a shallow copy of it. owner: the object whose attributes these are, if any.
    """

    path: str
    contents: Any
    before: Any
    owner: Any


@dataclass(frozen=True)
class Change:
    """`path` held `before` and holds `after`; `owner` and `attribute` identify an attribute."""

    path: str
    before: Any
    after: Any
    owner: Any
    attribute: str


class PythonState:
    """Everything reachable from `roots`, by name, through attributes, containers and closures.

    Raises ImportFailure for an iterator: a trace would advance it irreversibly and unseen.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.holders: list[Holder] = []
        self.tensors: dict[int, tuple[str, torch.Tensor]] = {}
        self._registries: set[int] = set()
        self._registered: set[int] = set()
        self._flags: list[tuple[torch.Tensor, bool, Any]] = []
        # A trace may write into tensors that it treats as constants.
        self._values: list[tuple[torch.Tensor, int, torch.Tensor]] = []
        seen: dict[int, Any] = {}
        waiting = [(path, value) for path, value in reversed(list(roots.items()))]
        while waiting:
            path, value = waiting.pop()
            if id(value) in seen or value is None or isinstance(value, _WITHOUT_PARTS):
                continue
            seen[id(value)] = value
            if isinstance(value, torch.Tensor):
                self.tensors[id(value)] = (path, value)
                self._flags.append((value, value.requires_grad, value.grad if value.is_leaf else None))
                continue
            _check_no_iterator(path, value)
            self._take_down(path, value)
            waiting.extend(reversed(list(_parts(path, value))))
        plain = [tensor for _, tensor in self.tensors.values() if id(tensor) not in self._registered]
        self._values = [(tensor, version(tensor), tensor.detach().clone()) for tensor in plain]

    def changes(self, names: Mapping[int, str]) -> Iterator[Change]:
        """The changes since, except registered tensors. `names`: those tensors by identity, including the trace's
        replacements, so that a list rebuilt of the same weights has not changed.
        """
        for holder in self.holders:
            if id(holder.contents) in self._registries:
                continue
            before, now = _entries(holder.before), _entries(_copy(holder.contents))
            for key in [*before, *(key for key in now if key not in before)]:
                old, new = before.get(key, _MISSING), now.get(key, _MISSING)
                if not _is_same(old, new, names):
                    yield Change(_join(holder, key), old, new, holder.owner, str(key))

    def trained(self, memory: torch.Tensor) -> str | None:
        """The place of a tensor that requires a gradient and aliases another."""
        found = ((path, own) for path, own in self.tensors.values() if own.requires_grad)
        return next((path for path, own in found if storage_key(own) == storage_key(memory)), None)

    def restore(self) -> None:
        """Restores everything."""
        for holder in self.holders:
            _put_back(holder)
        for tensor, requires_grad, grad in self._flags:
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)
            if tensor.is_leaf and tensor.grad is not grad:
                tensor.grad = grad
        for tensor, before, value in self._values:
            if version(tensor) != before:
                with torch.no_grad():
                    tensor.copy_(value)

    def _take_down(self, path: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            registries = [vars(value)[name] for name in REGISTRIES]
            self._registries.update(id(registry) for registry in registries)
            self._registered.update(id(tensor) for registry in registries for tensor in registry.values())
        if isinstance(value, _CONTAINERS):
            self.holders.append(Holder(path, value, _copy(value), None))
        self.holders.extend(Holder(path, own, _copy(own), value) for own in _attributes(value))


def is_missing(value: Any) -> bool:
    """Whether `value` is a `Change`'s marker for nothing."""
    return value is _MISSING


def _check_no_iterator(path: str, value: Any) -> None:
    """An iterator written in Python keeps its position in attributes, which are followed."""
    advance = getattr(type(value), "__next__", None)
    is_file = isinstance(value, io.IOBase)
    if advance is not None and not isinstance(advance, types.FunctionType) and not is_file:
        raise ImportFailure(
            path,
            f"is a {type(value).__name__}, from which each call may take the next element; a compiled step would not",
            hint="hold the elements in a list or a tensor, or pass the element as an input of the batch",
        )


def _attributes(value: Any) -> Iterator[MutableMapping[str, Any]]:
    return attributes_of(value) if _is_of_user(value) else iter(())


def _is_of_user(value: Any) -> bool:
    """Excludes libraries' own objects, such as loggers, which keep caches."""
    library = type(value).__module__.partition(".")[0] in _LIBRARIES
    return not library or isinstance(value, nn.Module | types.SimpleNamespace | types.FunctionType)


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of `value`, each with its path."""
    match value:
        case Mapping():
            yield from ((f"{path}[{key!r}]", item) for key, item in value.items())
        case list() | tuple() | set() | frozenset() | deque():
            yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
        case types.CellType():
            yield from ((path, item) for item in _cell(value))
        case types.FunctionType():
            names = value.__code__.co_freevars
            yield from ((f"{path}.{name}", cell) for name, cell in zip(names, value.__closure__ or (), strict=True))
            yield from ((path, item) for item in (value.__defaults__, value.__kwdefaults__))
        case types.MethodType():
            yield from ((path, item) for item in (value.__self__, value.__func__))
        case functools.partial():
            yield from ((path, item) for item in (value.func, value.args, value.keywords))
        case _:
            pass
    for attributes in _attributes(value):
        yield from _named(path, value, attributes)


def _named(path: str, owner: Any, attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, item in attributes.items():
        # Submodules are named as in `named_modules`.
        if isinstance(owner, nn.Module) and name in (*REGISTRIES, "_modules"):
            yield from ((f"{path}.{key}" if path else key, child) for key, child in item.items())
            yield path, item
        else:
            yield (f"{path}.{name}" if path else name), item


def _cell(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # A variable without a value yet.
        return ()


def _copy(contents: Any) -> Any:
    match contents:
        case types.CellType():
            return _cell(contents)
        case dict() | Slots():
            return dict(contents)
        case set():
            return set(contents)
        case _:
            return list(contents)


def _entries(copied: Any) -> dict[Any, Any]:
    """The contents of a copied holder, by key or index; a set is one entry, since its elements have no index."""
    if isinstance(copied, dict):
        return copied
    return {"": copied} if isinstance(copied, set) else dict(enumerate(copied))


def _put_back(holder: Holder) -> None:
    contents, before = holder.contents, holder.before
    if isinstance(contents, types.CellType):
        if before and (not _cell(contents) or contents.cell_contents is not before[0]):
            contents.cell_contents = before[0]
        return
    if _is_untouched(_copy(contents), before):
        return
    contents.clear()
    if isinstance(contents, dict | set | Slots):
        contents.update(before)
    else:
        contents.extend(before)


def _is_untouched(now: Any, before: Any) -> bool:
    if isinstance(before, set):
        return now == before
    now, before = _entries(now), _entries(before)
    return list(now) == list(before) and all(now[key] is before[key] for key in before)


def _is_same(old: Any, new: Any, names: Mapping[int, str]) -> bool:
    if old is new:
        return True
    if isinstance(old, torch.Tensor) or isinstance(new, torch.Tensor):
        return id(old) in names and names[id(old)] == names.get(id(new))
    if type(old) is not type(new):
        return False
    if isinstance(old, weakref.ref):
        return _is_same(old(), new(), names)
    if isinstance(old, Mapping):
        return list(old) == list(new) and all(_is_same(old[key], new[key], names) for key in old)
    if isinstance(old, list | tuple | deque):
        return len(old) == len(new) and all(_is_same(a, b, names) for a, b in zip(old, new, strict=True))
    if inspect.ismethod(old):
        return old.__func__ is new.__func__ and old.__self__ is new.__self__
    return isinstance(old, (*_PRIMITIVES, set, frozenset)) and old == new


def _join(holder: Holder, key: Any) -> str:
    if isinstance(holder.contents, types.CellType | set):
        return holder.path
    if holder.owner is None:
        return f"{holder.path}[{key!r}]"
    return f"{holder.path}.{key}" if holder.path else str(key)
