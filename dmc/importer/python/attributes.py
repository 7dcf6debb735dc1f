"""An object's own attributes, in its `__dict__` or in the `__slots__` of its class."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from types import MemberDescriptorType
from typing import Any


class Slots(MutableMapping[str, Any]):
    """The slots of `owner` that have a value, by name; writes bypass the class's own `__setattr__`."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        classes = [vars(each) for each in reversed(type(owner).__mro__) if "__slots__" in vars(each)]
        self._slots: dict[str, Any] = {
            name: slot for own in classes for name, slot in own.items() if isinstance(slot, MemberDescriptorType)
        }

    def __getitem__(self, name: str) -> Any:
        try:
            return self._slots[name].__get__(self._owner)
        except AttributeError as error:  # It has no value yet.
            raise KeyError(name) from error

    def __setitem__(self, name: str, value: Any) -> None:
        self._slots[name].__set__(self._owner, value)

    def __delitem__(self, name: str) -> None:
        self._slots[name].__delete__(self._owner)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._slots if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def attributes_of(value: Any) -> Iterator[MutableMapping[str, Any]]:
    """The attribute storage of `value`, to read and to write."""
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        yield own
    yield Slots(value)
