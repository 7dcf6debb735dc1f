"""What a question about a found plan asks for: `tp=2`, `zero=3 sequence`, or a line of the table of candidates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dmc.errors import PlanError
from dmc.search.candidates import SCHEDULES, Candidate

_ZERO = (0, 1, 2, 3)
_SIZES = ("pp", "dp", "tp", "zero", "microbatches", "chunks")
# As fields of candidates are written.
_WORDS = {"sequence": "sequence", "experts": "experts", "recompute": "again", "optimizer on host": "host"}
_NAMES = {field: word for word, field in _WORDS.items()}
_HINT = (
    f"say {', '.join(f'{name}=…' for name in _SIZES)}, a schedule ({', '.join(SCHEDULES)}), or {', '.join(_WORDS)}, "
    'each of these also with "no" before it'
)
Value = int | str


@dataclass(frozen=True)
class Question:
    """values: of fields of candidates, by name. text: as it was asked."""

    text: str
    values: Mapping[str, Value]

    def holds(self, candidate: Candidate) -> bool:
        """Whether a candidate is what is asked for."""
        return all(getattr(candidate, name) == value for name, value in self.values.items())

    def on(self, candidate: Candidate) -> Candidate:
        """The candidate with less in device memory in the ways that are asked for."""
        return replace(candidate, again=bool(self.values.get("again")), host=bool(self.values.get("host")))

    def missing(self, variants: Iterable[Candidate]) -> str:
        """Why none of the variants is what is asked for: what one thing is, where all others are as asked."""
        variants = list(variants)
        for name in self.values:
            rest = {other: value for other, value in self.values.items() if other != name}
            others = Question("", rest)
            if found := sorted({getattr(each, name) for each in variants if others.holds(each)}):
                where = f" where {', '.join(_said(*each) for each in rest.items())}" if rest else ""
                *before, last = (_said(name, each) for each in found)
                return f"only {' or '.join(filter(None, (', '.join(before), last)))} can be{where}"
        return f"no candidate has two of {', '.join(_said(*each) for each in self.values.items())}"


def question_of(text: str) -> Question:
    """The question that a text asks. Raises PlanError for one that asks nothing, or for what no search knows."""
    values: dict[str, Value] = {}
    rest = text.strip(" ,")
    while rest:
        said, length = _first(text, rest)
        for name, value in said.items():
            _check(text, name, value)
            if values.setdefault(name, value) != value:
                fact = f"asks for two of {_NAMES.get(name, name)}"
                raise PlanError(f"why not '{text}'", fact, "ask for one at a time")
        rest = rest[length:].lstrip(" ,")
    if not values:
        raise PlanError(f"why not '{text}'", "asks for nothing", _HINT)
    return Question(text, values)


def _first(text: str, rest: str) -> tuple[dict[str, Value], int]:
    """The fields that the first words of the rest name, and how long these are."""
    for form, read in _FORMS.items():
        if (match := form.match(rest)) is not None:
            return read(match), match.end()
    raise PlanError(f"why not '{text}'", f"'{rest}' is nothing that a search chooses", _HINT)


def _schedule(match: re.Match[str]) -> dict[str, Value]:
    chunks = {"chunks": int(match[2])} if match[2] else {}
    return {"schedule": match[1], **chunks}


# What a text begins with, and the fields that this names.
_END = r"(?=[\s,]|$)"
_FORMS: Mapping[re.Pattern[str], Callable[[re.Match[str]], dict[str, Value]]] = {
    re.compile(rf"({'|'.join(_SIZES)})\s*=\s*(\d+){_END}"): lambda found: {found[1]: int(found[2])},
    re.compile(rf"(\d+) micro-batch(?:es)?{_END}"): lambda found: {"microbatches": int(found[1])},
    re.compile(rf"(?:schedule\s*=\s*)?({'|'.join(SCHEDULES)})(?: [×x] (\d+))?{_END}"): _schedule,
    re.compile(rf"(no )?({'|'.join(_WORDS)}){_END}"): lambda found: {_WORDS[found[2]]: not found[1]},
}


def _check(text: str, name: str, value: Value) -> None:
    if name == "zero" and value not in _ZERO:
        raise PlanError(f"why not '{text}'", f"zero={value} is not a stage of ZeRO", "use 0 (none), 1, 2 or 3")
    if name in _SIZES and name != "zero" and value == 0:
        raise PlanError(f"why not '{text}'", f"{name}={value}", "it is at least 1")


def _said(name: str, value: Value) -> str:
    """As a question says it."""
    if isinstance(value, bool):
        return _NAMES[name] if value else f"no {_NAMES[name]}"
    return f"{name}={value}" if value != "" else "no schedule"
