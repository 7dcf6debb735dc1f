"""Every field of a job, found in the types of `dmc.program`, and ways to change each alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from dmc.program import Job

# From a job to a struct in it: names of fields, indices and keys.
Path = tuple[Any, ...]
Change = Callable[[Any], Any]
_NONSENSE = "nonsense"
_BY = (1, -1, 4, -4, 256, -256)


def fields_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The fields of a struct and of all that it holds, as "Slot.role", with their types."""
    found: dict[str, Any] = {}
    open_: list[type[msgspec.Struct]] = [kind]
    seen: set[type[msgspec.Struct]] = set()
    while open_:
        struct = open_.pop()
        if struct in seen:
            continue
        seen.add(struct)
        for name, type_ in get_type_hints(struct).items():
            found[f"{struct.__name__}.{name}"] = type_
            open_ += _structs_in(type_)
    return found


@dataclass(frozen=True)
class Places:
    """Where the fields of a job are, and what values each has."""

    job: Job
    structs: Mapping[str, Sequence[Path]]
    values: Mapping[str, Sequence[Any]]

    @staticmethod
    def of(job: Job) -> Places:
        """All of them."""
        structs: dict[str, list[Path]] = {}
        values: dict[str, list[Any]] = {}
        for path, struct in _walk(job, ()):
            structs.setdefault(type(struct).__name__, []).append(path)
            for name in struct.__struct_fields__:
                known = values.setdefault(f"{type(struct).__name__}.{name}", [])
                if (value := getattr(struct, name)) not in known:
                    known.append(value)
        return Places(job, structs, values)

    def mutant(self, name: str, type_: Any, random: Random) -> Job | None:
        """The job with one field of this name changed in one place, on one rank or on all; None where it has none."""
        struct, _, own = name.partition(".")
        if not (places := self.structs.get(struct)):
            return None
        path = random.choice(places)
        value = getattr(_at(self.job, path), own)
        changes = list(Changes(self.values[name]).of(type_, value))
        if not changes:
            return None
        change = random.choice(changes)
        paths = [path]
        if path and path[0] == "classes" and random.random() < 0.75:
            paths = [("classes", number, *path[2:]) for number in range(len(self.job.classes))]
        job: Any = self.job
        for each in paths:
            job = _with(job, (*each, own), change)
        return None if job == self.job else job


@dataclass(frozen=True)
class Changes:
    """Other values of a field. known: those that it has somewhere in the job."""

    known: Sequence[Any]

    def of(self, type_: Any, value: Any) -> Iterator[Change]:
        """Functions from a value, such as this one, to another one of its type."""
        kind = get_origin(type_)
        yield from (_constant(other) for other in self.known if other != value)
        if kind in (Union, UnionType):
            yield from self._of_union(type_, value)
        elif kind is Literal:
            yield from (_constant(other) for other in get_args(type_) if other != value)
        elif kind is tuple:
            yield from self._of_tuple(get_args(type_)[0], value)
        elif kind is dict:
            yield from self._of_dict(get_args(type_)[1], value)
        elif type_ is int:
            yield from [*map(_added, _BY), _constant(0), _constant(-1), lambda old: 2 * old, _constant(1 << 40)]
        elif type_ is str:
            yield from [_constant(""), _constant(_NONSENSE), lambda old: old + "_"]
        elif not issubclass(type_, msgspec.Struct):
            raise TypeError(f"no way to change a value of type {type_}")

    def _of_union(self, type_: Any, value: Any) -> Iterator[Change]:
        if value is not None:
            yield _constant(None)
        for kind in (each for each in get_args(type_) if each is not NoneType):
            if value is None:
                yield from map(_constant, _some(kind))
            elif get_origin(kind) is not None or isinstance(value, kind):
                yield from Changes(()).of(kind, value)

    def _of_tuple(self, element: Any, value: Sequence[Any]) -> Iterator[Change]:
        yield _constant(())
        yield from (_constant((each,)) for each in _some(element))
        yield lambda old: tuple(reversed(old))
        for i in range(len(value)):
            yield lambda old, i=i: (*old[:i], *old[i + 1 :])
            yield lambda old, i=i: (*old[: i + 1], *old[i:])
        for i, _ in pairwise(range(len(value))):
            yield lambda old, i=i: (*old[:i], old[i + 1], old[i], *old[i + 2 :]) if i + 1 < len(old) else old
        # What structs hold is changed by itself.
        if _structs_in(element):
            return
        for i in range(len(value)):
            for change in Changes([each for each in value if each != value[i]]).of(element, value[i]):
                yield lambda old, i=i, change=change: (*old[:i], *map(change, old[i : i + 1]), *old[i + 1 :])

    def _of_dict(self, element: Any, value: Mapping[Any, Any]) -> Iterator[Change]:
        yield lambda old: dict(reversed(old.items()))
        yield lambda old: {}
        for key in value:
            yield lambda old, key=key: {name: each for name, each in old.items() if name != key}
            if isinstance(key, str) and not key.islower():
                continue
            yield lambda old, key=key: {f"{name}_" if name == key else name: each for name, each in old.items()}
            yield lambda old, key=key: {**old, f"{key}_": old[key]} if key in old else old
        for one, other in pairwise(value):
            yield lambda old, one=one, other=other: {**old, one: old[other], other: old[one]}
        if _structs_in(element):
            return
        for key in value:
            for change in Changes(()).of(element, value[key]):
                yield lambda old, key=key, change=change: {**old, key: change(old[key])}


def _some(type_: Any) -> list[Any]:
    """Values of a type, of which a job need not have one."""
    if type_ is int:
        return [0, 1]
    if type_ is str:
        return [_NONSENSE]
    if get_origin(type_) is Literal:
        return list(get_args(type_))
    if get_origin(type_) is tuple:
        return [tuple(_some(each)[0] for each in get_args(type_) if each is not Ellipsis and _some(each))]
    return []


def _constant(value: Any) -> Change:
    return lambda _: value


def _added(by: int) -> Change:
    return lambda old: old + by


def _structs_in(type_: Any) -> list[type[msgspec.Struct]]:
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return [type_]
    return [struct for each in get_args(type_) for struct in _structs_in(each)]


def _walk(value: Any, path: Path) -> Iterator[tuple[Path, msgspec.Struct]]:
    """Every struct, with the path to it."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, msgspec.Struct):
        yield path, value
        inside = ((name, getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, tuple):
        inside = enumerate(value)
    elif isinstance(value, dict):
        inside = value.items()
    for key, each in inside:
        yield from _walk(each, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = _inside(value, key)
    return value


def _inside(value: Any, key: Any) -> Any:
    return getattr(value, key) if isinstance(value, msgspec.Struct) else value[key]


def _with(value: Any, path: Path, change: Change) -> Any:
    """The value with what is at the end of a path changed; as it is where the path leads nowhere."""
    if not path:
        return change(value)
    key, *rest = path
    try:
        new = _with(_inside(value, key), tuple(rest), change)
    except (AttributeError, IndexError, KeyError):
        # Another rank has nothing there.
        return value
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **{key: new})
    if isinstance(value, dict):
        return {**value, key: new}
    return (*value[:key], new, *value[key + 1 :])
