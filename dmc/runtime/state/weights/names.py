"""Which tensors of a step are which of the files: by name, with or without a prefix that all have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dmc.dtypes import describe, is_floating, stored_dtype
from dmc.errors import StateError
from dmc.program.signature import StateSpec
from dmc.runtime.files.stored_state import is_weight
from dmc.runtime.files.tensor_file import TensorFile
from dmc.runtime.state.dictionaries import nearest

_SHOWN = 8
# How many parts of a name a prefix has at most.
_DEEPEST = 3


@dataclass(frozen=True)
class Source:
    """A tensor of the step, by its number in the signature, and the names of it in files: several where it is tied."""

    index: int
    spec: StateSpec
    stored: tuple[tuple[str, TensorFile], ...]


def sources(
    specs: Sequence[StateSpec],
    unset: Collection[str],
    files: Mapping[str, TensorFile],
    ignore: Sequence[str],
    place: str,
) -> list[Source]:
    """What is to be read for each tensor. unset: the names of those that have no numbers yet. ignore: patterns of names
    in files, and in the step, that are left as they are.

    Raises StateError about `place` that lists every name that is missing or unexpected, and every tensor of another
    shape, or of a type that does not become the step's.
    """
    ours = {name: (index, spec) for index, spec in enumerate(specs) if is_weight(spec) for name in _saved(spec)}
    ours = {name: each for name, each in ours.items() if not _is_any(name, ignore)}
    rename = _renaming(ours, files)
    theirs = {rename(name): (name, file) for name, file in files.items() if not _is_any(name, ignore)}
    found: dict[int, Source] = {}
    for index, spec in ours.values():
        stored = tuple(theirs[each] for each in _saved(spec) if each in theirs)
        if stored:
            found[index] = Source(index, spec, stored)
    absent = [spec for index, spec in ours.values() if index not in found]
    missing = dict.fromkeys(spec.name for spec in absent if spec.role != "buffer" or spec.name in unset)
    facts = [*_missing([*missing], theirs.keys() - ours), *_unexpected(ours, theirs)]
    facts += [fact for each in found.values() for fact in _type_facts(each)]
    if facts:
        more = [f"and {len(facts) - _SHOWN} more"] if len(facts) > _SHOWN else []
        fact = "does not fit the step, which is unchanged\n  " + "\n  ".join([*facts[:_SHOWN], *more])
        raise StateError(place, fact, hint='pass the weights of the model; ignore=["…"] leaves out names by a pattern')
    return [*found.values()]


def _saved(spec: StateSpec) -> list[str]:
    """The names of a tensor in a model's `state_dict()`."""
    return [name for name in (spec.name, *spec.aliases) if name not in spec.transient]


def _is_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _renaming(ours: Collection[str], theirs: Collection[str]) -> Callable[[str], str]:
    """The step's name of a file's: with a prefix, as of a whole model for the one inside, without one, or as it is;
    whichever finds most."""
    ways: list[Callable[[str], str]] = [lambda name: name]
    ways += [lambda name, prefix=prefix: prefix + name for prefix in _prefixes(ours)]
    ways += [lambda name, prefix=prefix: name.removeprefix(prefix) for prefix in _prefixes(theirs)]
    return max(ways, key=lambda way: sum(way(name) in ours for name in theirs))


def _prefixes(names: Collection[str]) -> list[str]:
    found = (name.split(".")[:depth] for name in names for depth in range(1, min(_DEEPEST, name.count(".")) + 1))
    return list(dict.fromkeys(".".join(parts) + "." for parts in found))


def _missing(names: Sequence[str], others: set[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        yield f"missing {name!r}" + (nearest(name, others) if number < _SHOWN else "")


def _unexpected(ours: Collection[str], theirs: Mapping[str, tuple[str, TensorFile]]) -> Iterator[str]:
    unknown = [theirs[name] for name in theirs if name not in ours]
    for number, (name, file) in enumerate(unknown):
        yield f"unexpected {name!r} in {file.path.name}" + (nearest(name, set(ours)) if number < _SHOWN else "")


def _type_facts(source: Source) -> Iterator[str]:
    spec = source.spec
    for name, file in source.stored:
        entry = file.entries[name]
        if entry.shape != spec.shape or not _becomes(entry.dtype, spec.dtype):
            yield f"{name!r} in {file.path.name} is {entry}, and in the step {describe(spec.dtype, spec.shape)}"


def _becomes(stored: str, wanted: str) -> bool:
    """Whether what is stored is converted to a type: floating to floating types."""
    kind = stored_dtype(stored)
    return kind is not None and (kind.name == wanted or (is_floating(kind.name) and is_floating(wanted)))
