"""`--verify-diagnostics`: comments in the input say which diagnostics must appear, and where.

`// expected-error @+1 {{text}}` expects an error on the next line whose message contains `text`; likewise
`expected-warning`, `expected-remark` and `expected-note`. `@-2`, `@above`, `@below` and `@unknown` work as in MLIR, and
in `expected-error-re {{a {{[0-9]+}} b}}` the inner braces hold regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dmc.cli.opt_diagnostics import BUFFER, Diagnostic, Place

_DIRECTIVE = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)? *"
    r"(?:@(?P<at>[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)
_MALFORMED = re.compile(r"//.*\bexpected-(error|warning|remark|note)\b")


@dataclass(frozen=True)
class Expectation:
    """One directive: the diagnostic it expects on `line` (None: at no known place), and its own place."""

    severity: str
    line: int | None
    text: str
    pattern: re.Pattern[str]
    written_on: int

    def fits(self, diagnostic: Diagnostic, file: str) -> bool:
        """Whether `diagnostic` is the expected one; `file` is the input's own name."""
        place = diagnostic.place
        if diagnostic.severity != self.severity or not self.pattern.search(_full_message(diagnostic)):
            return False
        if self.line is None or place is None:
            return self.line is None and place is None
        return place.file in (BUFFER, file) and place.line == self.line


def check(source: str, file: str, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Mismatches between the directives in `source` and the diagnostics: empty if each matched exactly one.

    The result is diagnostics, too: an unexpected one is repeated as an error, a missing one is reported at its
    directive.
    """
    waiting = list(expectations(source))
    problems = [
        Diagnostic("error", Place(BUFFER, line, 1), "cannot read this expected- directive")
        for line in _unreadable(source)
    ]
    for diagnostic in _flat(diagnostics):
        met = next((wanted for wanted in waiting if wanted.fits(diagnostic, file)), None)
        if met is None:
            message = f"unexpected {diagnostic.severity}: {_full_message(diagnostic)}"
            problems.append(Diagnostic("error", diagnostic.place, message))
        else:
            waiting.remove(met)
    for wanted in waiting:
        message = f'expected {wanted.severity} "{wanted.text}" was not produced'
        problems.append(Diagnostic("error", Place(BUFFER, wanted.written_on, 1), message))
    return problems


def expectations(source: str) -> Iterator[Expectation]:
    """The directives in `source`, in order."""
    lines = source.splitlines()
    found = {number: match for number, line in enumerate(lines, 1) if (match := _DIRECTIVE.search(line))}
    for number, match in found.items():
        pattern = _pattern(match["text"]) if match["regex"] else re.compile(re.escape(match["text"]))
        yield Expectation(match["severity"], _target(number, match["at"], found), match["text"], pattern, number)


def _target(number: int, at: str | None, directives: Iterable[int]) -> int | None:
    if at is None:
        return number
    if at == "unknown":
        return None
    if at not in ("above", "below"):
        return number + int(at)
    # Consecutive directives all refer to the nearest line that is not a directive.
    taken, step = set(directives), -1 if at == "above" else 1
    target = number + step
    while target in taken:
        target += step
    return target


def _pattern(text: str) -> re.Pattern[str]:
    literal_and_regex = re.split(r"\{\{(.*?)\}\}", text)
    parts = (f"(?:{part})" if index % 2 else re.escape(part) for index, part in enumerate(literal_and_regex))
    return re.compile("".join(parts))


def _unreadable(source: str) -> Iterator[int]:
    for number, line in enumerate(source.splitlines(), 1):
        if _MALFORMED.search(line) and not _DIRECTIVE.search(line):
            yield number


def _flat(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flat(diagnostic.notes)


def _full_message(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.message}\n  hint: {diagnostic.hint}" if diagnostic.hint else diagnostic.message
