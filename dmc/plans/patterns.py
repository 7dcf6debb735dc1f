"""Shell patterns over module paths, and the closest names where one matches nothing."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Mapping

from dmc.errors import PlanError
from dmc.plans.rules import Rule

NEAREST = 3


Names = Mapping[str, tuple[int, ...] | None]


def find(rule: Rule, pattern: str, names: Names, what: str, optional: bool = False) -> list[str]:
    """The names that the `pattern` of `rule` matches, in the order of `names` (name to shape, or to None).

    `what`: the kind of names, for the error. Raises PlanError, with the closest names, for an alternative that matches
    nothing and is not `optional`. See `Recipe` for what patterns mean.
    """
    found: set[str] = set()
    for alternative in map(str.strip, pattern.split("|")):
        matches = matcher(alternative)
        matched = [name for name in names if matches(name)]
        if not (matched or optional):
            hint = _nearest(alternative, names, what)
            if rule.recipe.startswith("megatron_"):
                hint += f'; dmc.plans.megatron("{rule.axes[0]}") finds the layers of any model'
            raise PlanError(str(rule), f"'{alternative}' matches no {what}", hint)
        found.update(matched)
    return [name for name in names if name in found]


def matcher(alternative: str) -> Callable[[str], object]:
    """Whether a name, or what follows one of its dots, matches the shell pattern `alternative`.

    One that begins with a dot must match the whole name behind it.
    """
    if alternative.startswith("."):
        return re.compile(fnmatch.translate(alternative[1:])).match
    return re.compile(rf"(?s:.*\.)?{fnmatch.translate(alternative)}").match


def _nearest(alternative: str, names: Names, what: str) -> str:
    # Layers that differ only in their number count as one name, so a deep model has few distinct names.
    shapes: dict[str, tuple[int, ...] | None] = {}
    for name, shape in names.items():
        shapes.setdefault(_numberless(name), shape)
    if not shapes:
        return f"there is no {what}"
    wanted = _numberless(alternative)
    depth = wanted.count(".") + 1
    by_tail: dict[str, list[str]] = {}
    for name in shapes:
        by_tail.setdefault(".".join(name.split(".")[-depth:]), []).append(name)
    near = [name for tail in difflib.get_close_matches(wanted, by_tail, n=NEAREST) for name in by_tail[tail]]
    listed = ", ".join(_described(name, shapes[name]) for name in (near or list(shapes))[:NEAREST])
    return f"the closest are {listed}" if near else f"there are {listed}{', …' if len(shapes) > NEAREST else ''}"


def _numberless(name: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


def _described(name: str, shape: tuple[int, ...] | None) -> str:
    return name if shape is None else f"{name} {list(shape)}"
