"""`dmc-opt --verify-diagnostics`."""

from __future__ import annotations

import pytest

from dmc.cli.opt_diagnostics import BUFFER, Diagnostic, Place
from dmc.cli.opt_expectations import check

FILE = "in.mlir"


def _at(line: int, message: str, severity: str = "error", file: str = BUFFER) -> Diagnostic:
    return Diagnostic(severity, Place(file, line, 3), message)


@pytest.mark.parametrize(
    "source",
    [
        "op // expected-error {{no good}}",
        "// expected-error@+0 {{no good}}\n",
        "// expected-error-re {{no {{g[o]+d}}}}\n",
        "// expected-error-re {{n{{.}} good at (1+1)}}\n",
    ],
)
def test_a_met_expectation_says_nothing(source: str) -> None:
    assert check(source, FILE, [_at(1, "this is no good at (1+1)")]) == []


@pytest.mark.parametrize("at", ["@+1", "@below", "@+1 ", "@below  "])
def test_below(at: str) -> None:
    source = f"\n// expected-error {at}{{{{bad}}}}\nop"
    assert check(source, FILE, [_at(3, "bad")]) == []
    assert len(check(source, FILE, [_at(2, "bad")])) == 2


@pytest.mark.parametrize("at", ["@-2", "@above"])
def test_above(at: str) -> None:
    source = f"op\n// expected-remark {'@-1' if at == '@-2' else at}{{{{one}}}}\n// expected-error {at}{{{{bad}}}}"
    assert check(source, FILE, [_at(1, "bad"), _at(1, "one", "remark")]) == []


def test_stacked_below() -> None:
    source = "// expected-warning @below {{one}}\n// expected-error @below {{two}}\nop"
    assert check(source, FILE, [_at(3, "two"), _at(3, "one", "warning")]) == []


def test_unknown_place() -> None:
    diagnostic = Diagnostic("error", None, "bad")
    assert check("// expected-error @unknown {{bad}}", FILE, [diagnostic]) == []
    assert len(check("// expected-error {{bad}}", FILE, [diagnostic])) == 2


def test_an_unexpected_diagnostic_is_repeated() -> None:
    (problem,) = check("op", FILE, [_at(1, "bad", "warning")])
    assert (problem.severity, problem.message, problem.place) == (
        "error",
        "unexpected warning: bad",
        Place(BUFFER, 1, 3),
    )


def test_a_missing_diagnostic_stands_at_its_directive() -> None:
    (problem,) = check("\n// expected-note @+5 {{see here}}", FILE, [])
    assert problem.message == 'expected note "see here" was not produced'
    assert problem.place == Place(BUFFER, 2, 1)


def test_each_expectation_is_met_once() -> None:
    assert len(check("op // expected-error {{bad}}", FILE, [_at(1, "bad"), _at(1, "bad")])) == 1


def test_severity_and_file_matter() -> None:
    assert len(check("op // expected-error {{bad}}", FILE, [_at(1, "bad", "warning")])) == 2
    assert len(check("op // expected-error {{bad}}", FILE, [_at(1, "bad", file="model.py")])) == 2
    assert check("op // expected-error {{bad}}", FILE, [_at(1, "bad", file=FILE)]) == []


def test_notes_are_expected_too() -> None:
    diagnostic = Diagnostic("error", Place(BUFFER, 1, 1), "bad", notes=(_at(2, "because", "note"),))
    assert len(check("op // expected-error {{bad}}\nop", FILE, [diagnostic])) == 1
    assert check("op // expected-error {{bad}}\nop // expected-note {{because}}", FILE, [diagnostic]) == []


def test_a_hint_may_be_expected_and_need_not() -> None:
    diagnostic = Diagnostic("error", Place(BUFFER, 1, 1), "bad", hint="try again")
    assert check("op // expected-error {{bad}}", FILE, [diagnostic]) == []
    assert check("op // expected-error {{try again}}", FILE, [diagnostic]) == []


@pytest.mark.parametrize("typo", ["expected-error {bad}", "expected-error @bellow {{bad}}", "expected-error: {{bad}}"])
def test_a_directive_that_cannot_be_read_is_an_error(typo: str) -> None:
    (problem,) = check(f"op // {typo}", FILE, [])
    assert problem.message == "cannot read this expected- directive"
    assert problem.place == Place(BUFFER, 1, 1)
