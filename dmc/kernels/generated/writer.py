"""The text of a kernel under construction: each line once, and hoisted out of loops as far as its operands allow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, field

from dmc.kernels.generated.index import Atom, Index, Looked, Quotient, Remainder, Variable, Within
from dmc.kernels.generated.value import TRITON, Value

_WIDE = 2**31
_INDENT = "    "
_NAMES = re.compile(r"[A-Za-z_]\w*")
_MADE = re.compile(r"\s*(\w+) = ")


@dataclass
class _Scope:
    """A function or a loop. variables: those that differ between its iterations. known: the expressions it already
    contains."""

    variables: set[str]
    lines: list[str] = field(default_factory=list)
    known: dict[Hashable, Value] = field(default_factory=dict)


class Writer:
    """Writes one kernel. `masks`: for a variable that may exceed its size, the name of its mask. `declared`: the text
    of each variable."""

    def __init__(self) -> None:
        self.scopes = [_Scope(set())]
        self.names: Counter[str] = Counter()
        self.masks: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        # Narrow numbers by the names of their widened values; numbers of f32 by the names of what they become in bf16;
        # names of tiles that are 0 where masked.
        self.widened: dict[str, Value] = {}
        self.narrowed: dict[str, str] = {}
        self.zeroed: set[str] = set()

    @contextmanager
    def loop(self, head: str, *variables: str) -> Generator[None]:
        """Lines written inside that depend on `variables`, or on one declared inside, go into the loop `head`."""
        self.scopes.append(_Scope(set(variables)))
        yield
        scope = self.scopes.pop()
        self.raw(head)
        self.scopes[-1].lines += [_INDENT + line for line in scope.lines]

    def declare(self, name: str, text: str) -> None:
        """A variable of the innermost loop, or of the function."""
        self.raw(f"{name} = {text}")
        self.scopes[-1].variables.add(name)
        self.declared[name] = text

    def beside(self, name: str, text: str) -> str:
        """A variable `text` where that of this name is, which may already be defined."""
        known = self.find((name, text))
        if known is not None:
            return known.text
        scope, made = self._scope(frozenset((name,))), self.name(f"{name}_words")
        scope.lines.append(f"{made} = {text}")
        scope.variables.add(made)
        scope.known[name, text] = Value(made, "", "")
        return made

    def raw(self, line: str) -> None:
        """A line at the end of the innermost scope."""
        self.scopes[-1].lines.append(line)

    def name(self, stem: str) -> str:
        """An unused name."""
        self.names[stem] += 1
        return stem if self.names[stem] == 1 else f"{stem}_{self.names[stem]}"

    def line(self, stem: str, expression: str, variables: frozenset[str]) -> str:
        """The name of the value `expression`, which may already be defined."""
        known = self.find(expression)
        if known is not None:
            return known.text
        name = self.name(stem)
        self._scope(variables).lines.append(f"{name} = {expression}")
        self.keep(expression, Value(name, "", "", variables))
        return name

    def find(self, key: Hashable) -> Value | None:
        """The value kept under `key` that is visible here."""
        for scope in reversed(self.scopes):
            if key in scope.known:
                return scope.known[key]
        return None

    def keep(self, key: Hashable, value: Value) -> Value:
        """Keeps `value` while its dependences stay the same."""
        self._scope(value.variables).known[key] = value
        return value

    def mask(self, variables: frozenset[str]) -> list[str]:
        """The masks that keep an access by these variables in bounds."""
        return [self.masks[name] for name in sorted(variables) if name in self.masks]

    def index(self, index: Index) -> str:
        """The text of an expression, with loop-invariant parts hoisted."""
        if not index.terms:
            return str(index.constant)
        wide = max(abs(end) for end in index.bounds) >= _WIDE
        whole = ""
        for scope in self.scopes:
            own = [term for term in index.terms if self._scope(term[0].variables) is scope]
            if not own:
                continue
            parts = [part for part in (whole, *(self._term(atom, factor, wide) for atom, factor in own)) if part]
            whole = " + ".join(parts).replace("+ -", "- ")
            if scope is not self.scopes[-1] and len(parts) > 1:
                whole = self.line("offset", whole, frozenset(name for atom, _ in own for name in atom.variables))
        sign = "+" if index.constant > 0 else "-"
        return f"{whole} {sign} {abs(index.constant)}" if index.constant else whole

    def lines(self) -> list[str]:
        """The lines of the kernel."""
        return _without_unread(self.scopes[0].lines)

    def _scope(self, variables: frozenset[str]) -> _Scope:
        return next((scope for scope in reversed(self.scopes) if scope.variables & variables), self.scopes[0])

    def _term(self, atom: Atom, factor: int, wide: bool) -> str:
        text = self._atom(atom)
        if wide:
            text = self.line("wide", f"{text}.to({TRITON['i64']})", atom.variables)
        return text if factor == 1 else f"-{text}" if factor == -1 else f"{text} * {factor}"

    def _atom(self, atom: Atom) -> str:
        match atom:
            case Variable(name=name) | Looked(name=name):
                return name
            case Quotient(of=of, by=by):
                return self.line("quotient", f"{_grouped(self.index(of))} // {by}", atom.variables)
            case Remainder(of=of, by=by):
                return self.line("remainder", f"{_grouped(self.index(of))} % {by}", atom.variables)
            case Within(of=of):
                return self.line("within", self.index(of), atom.variables)


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text


def _without_unread(lines: list[str]) -> list[str]:
    """The lines, except definitions of unused names."""
    while True:
        read = Counter(name for line in lines for name in set(_NAMES.findall(line)))
        kept = [line for line in lines if (made := _MADE.match(line)) is None or read[made[1]] > 1]
        if len(kept) == len(lines):
            return kept
        lines = kept
