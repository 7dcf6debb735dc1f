"""`dmc plan --search`: the candidates with predicted times and memory, those that cannot be, the plan found, and the
answers to questions about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmc.cli.source import as_keywords, check_keywords, function_of
from dmc.errors import DmcError
from dmc.program.sizes import size_of, size_text
from dmc.progress import shown
from dmc.runtime.reports.report import columns

if TYPE_CHECKING:
    from dmc.search import Found
    from dmc.search.trial import Trial

# Columns without a terminal.
_WIDE = 120
_HEADS = ("plan", "ms a step", "device memory", "computing", "communication", "judged by")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the search to the parser of `dmc plan`."""
    group = parser.add_argument_group("search")
    group.add_argument("--search", metavar="module:function", help="returns the keyword arguments of dmc.compile")
    group.add_argument("--machine", metavar="MACHINE", help="the machine to plan for, for example h100x4")
    group.add_argument("--memory-cap", metavar="SIZE", help="device memory of a rank, for example 40GB")
    why = "what another place for the weights of these modules would cost, as in 'h.*.mlp.up'"
    group.add_argument("--why", metavar="PATH", action="append", default=[], help=why)
    why_not = "what another plan would cost, as in 'tp=2' or 'zero=3 sequence'"
    group.add_argument("--why-not", metavar="PLAN", action="append", default=[], help=why_not)
    group.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Searches and prints. Raises DmcError, where no plan fits too."""
    if arguments.files:
        raise DmcError("dmc plan --search", "got files too", "pass one or the other")
    source = arguments.search
    keywords = as_keywords(function_of(source)(), source)
    # The plan is what is searched for.
    keywords = {name: value for name, value in keywords.items() if name not in ("plan", "mesh")}
    if arguments.machine is not None:
        keywords["machine"] = arguments.machine
    if arguments.memory_cap is not None:
        keywords["memory_cap"] = size_of(arguments.memory_cap, "--memory-cap")
    check_keywords(keywords, source)
    # The compiler takes a while to load, and only some commands need it.
    from dmc.search import check_questions, find, problem_of, why, why_not

    problem = problem_of(**keywords)
    # Before minutes are spent.
    check_questions(problem, arguments.why, arguments.why_not)
    with shown(not arguments.quiet) as observer:
        found = find(problem, observer)
        answers = [why(found, path) for path in arguments.why]
        answers += [why_not(found, what) for what in arguments.why_not]
    _print(found)
    for answer in answers:
        print(f"\n{answer}")
    return 0


def _print(found: Found) -> None:
    # Rich takes a while to load, and only this needs it.
    from rich.console import Console
    from rich.table import Table

    from dmc.search import written

    console = Console(width=columns(_WIDE), highlight=False, markup=False, emoji=False)
    table = Table(*_HEADS, box=None)
    for row in _rows(found):
        table.add_row(*row)
    console.print(table)
    for each in found.ranking.pruned:
        console.print(f"not possible: {each.what}: {each.reason}", soft_wrap=True)
    console.print(
        f"\nfound in {found.seconds:.1f} s, with {found.planned} plans:\n{written(found.plan)}", soft_wrap=True
    )


def _rows(found: Found) -> Iterator[tuple[str, ...]]:
    for final in found.finals:
        yield _row(str(final.candidate), final.trial, final.trial.ns, "a whole plan")
    whole = {final.candidate for final in found.finals}
    for each in found.ranking.fits:
        if each.candidate not in whole:
            yield _row(str(each.candidate), each.estimate, each.ns, "few layers")
    for each in found.ranking.over:
        yield _row(str(each.candidate), each.estimate, each.ns, "few layers: over the cap")
    for candidate, bound in found.ranking.bounded:
        yield (str(candidate), f"≥ {bound * 1e-6:.3f}", "", "", "", "a bound")


def _row(name: str, trial: Trial, ns: float, by: str) -> tuple[str, ...]:
    shares = (f"{100 * part / trial.ns:.0f} %" for part in (trial.busy, trial.communication))
    return (name, f"{ns * 1e-6:.3f}", size_text(round(trial.bytes)), *shares, by)
