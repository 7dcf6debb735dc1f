"""Results of several systems in one file, each compared with the first of its case by the losses of its first steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from bench.record import write_record

# Of a loss in bf16: six steps of rounding each.
TOLERANCE = 5e-3


class Result(Protocol):
    """A frozen dataclass of these fields and others. agrees: whether its losses are those of the first of its case."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def losses(self) -> tuple[float, ...]:
        """Of the first steps; none of a system that failed."""
        ...

    @property
    def agrees(self) -> bool | None:
        """None until results are collected."""
        ...

    @property
    def failed(self) -> str:
        """Why; "" if it did not."""
        ...


Own = TypeVar("Own", bound=Result)


def add(path: Path, result: Own, key: Callable[[Own], Hashable]) -> None:
    """Adds a result in place of an older one with the same key."""
    known = [type(result)(**each) for each in _read(path)] if path.exists() else []
    _write(path, [*(each for each in known if key(each) != key(result)), result])


def collected(path: Path, kind: type[Own], case: Callable[[Own], Hashable]) -> list[tuple[Own, Own]]:
    """Each result with the first of its case, with which it was compared; the file then says how that went."""
    found = [kind(**each) for each in _read(path)]
    first = {case(each): each for each in reversed(found) if each.losses}
    results = [replace(each, agrees=_agrees(each, first[case(each)])) for each in found]
    _write(path, results)
    return [(each, first[case(each)]) for each in results]


def all_agree(pairs: list[tuple[Own, Own]]) -> bool:
    """Whether all that did not fail agree."""
    return all(each.agrees for each, _ in pairs if not each.failed)


def _agrees(result: Result, other: Result) -> bool:
    pairs = zip(result.losses, other.losses, strict=False)
    return bool(result.losses) and all(abs(a - b) <= TOLERANCE * abs(b) for a, b in pairs)


def _read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["results"]


def _write(path: Path, results: list[Own]) -> None:
    write_record(path, {"results": [asdict(each) for each in results]})
