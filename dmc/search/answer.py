"""The answer to a question about a found plan: two steps beside each other, and what makes the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dmc.plans.tensors import TensorPlan
from dmc.program.sizes import size_text
from dmc.search.finals import Final
from dmc.search.trial import Trial
from dmc.search.written import written


@dataclass(frozen=True)
class Answer:
    """asked: the question. found, other: the plan found, and the fastest that does otherwise, both whole; None where
    none can be, for a `reason`. needed: a cap that would do, in bytes, where memory is the reason, else 0.
    placed: how the two place the weights that the question is about, by name.
    """

    asked: str
    found: Final
    other: Final | None = None
    reason: str = ""
    needed: int = 0
    placed: tuple[Mapping[str, TensorPlan], ...] = ()

    @property
    def difference(self) -> Trial | None:
        """What the other plan takes more than the one found, of each kind; None without another plan."""
        return None if self.other is None else self.other.trial + self.found.trial.times(-1.0)

    def __str__(self) -> str:
        """The answer as lines of text."""
        lines = [f"{self.asked}: {self._said()}", *self._places()]
        if self.other is not None:
            lines += ["", *_table(self.found.trial, self.other.trial), "", written(self.other.plan)]
        return "\n".join(lines)

    def _said(self) -> str:
        if self.other is None or self.difference is None:
            return self.reason
        more = self.difference.ns * 1e-6
        if more < 0:
            return f"{self.other.candidate} takes {-more:.3f} ms less; the search did not judge it"
        return f"the fastest plan that does otherwise, {self.other.candidate}, takes {more:.3f} ms more"

    def _places(self) -> Iterator[str]:
        for whose, placed in zip(("found", "other"), self.placed, strict=False):
            for name, each in placed.items():
                optimizer = "" if each.optimizer is None else f", optimizer's state {each.optimizer}"
                shape = list(each.spec.shape)
                yield f"  {whose}: {name} {shape}: {each.stored} between steps, {each.used} in use{optimizer}"


def _table(found: Trial, other: Trial) -> Iterator[str]:
    rows = [("", "found", "other", "difference")]
    rows.append(("step", *_times(found.ns, other.ns)))
    for (name, ours), theirs in zip(parts_of(found).items(), parts_of(other).values(), strict=True):
        rows.append((f"  {name}", *_times(ours, theirs)))
    rows.append(("device memory of a rank", *_sizes(found.bytes, other.bytes)))
    for (name, ours), theirs in zip(found.held.items(), other.held.values(), strict=True):
        rows.append((f"  {name}", *_sizes(ours, theirs)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for first, *rest in rows:
        cells = (text.rjust(width + 2) for text, width in zip(rest, widths[1:], strict=True))
        yield first.ljust(widths[0]) + "".join(cells)


def parts_of(trial: Trial) -> dict[str, float]:
    """Nanoseconds of a step by what they pass with, which add up to it."""
    return {
        "forward and backward pass": trial.busy - trial.update,
        "optimizer": trial.update,
        "communication, exposed": trial.communication,
        "copies": trial.copies,
        "waiting for other ranks": trial.others,
    }


def _times(found: float, other: float) -> tuple[str, str, str]:
    return f"{found * 1e-6:.3f} ms", f"{other * 1e-6:.3f} ms", f"{(other - found) * 1e-6:+.3f} ms"


def _sizes(found: float, other: float) -> tuple[str, str, str]:
    more = round(other - found)
    return size_text(round(found)), size_text(round(other)), f"{'+' if more >= 0 else '-'}{size_text(abs(more))}"


def listed(held: Mapping[str, int]) -> str:
    """Sizes by name, as text."""
    return ", ".join(f"{name} {size_text(size)}" for name, size in held.items() if size)
