"""`dmc plan --explain`: a step planned with no line of its plan, with the first, with the first two, and so on."""

from __future__ import annotations

import argparse

from dmc.cli.source import as_keywords, check_keywords, function_of
from dmc.errors import DmcError
from dmc.program.sizes import size_of
from dmc.progress import shown


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the option to the parser of `dmc plan`; the machine and the cap are those of the search."""
    what = "what each line of the plan changes; it returns the keyword arguments of dmc.compile"
    parser.add_argument("--explain", metavar="module:function", help=what)


def run(arguments: argparse.Namespace) -> int:
    """Plans and prints the table. Raises DmcError as `dmc.search.explain` does."""
    if arguments.files or arguments.search is not None or arguments.why or arguments.why_not:
        raise DmcError("dmc plan --explain", "is about the plan of one step", "leave files, --search and --why out")
    source = arguments.explain
    keywords = as_keywords(function_of(source)(), source)
    check_keywords(keywords, source)
    if arguments.machine is not None:
        keywords["machine"] = arguments.machine
    if arguments.memory_cap is not None:
        keywords["memory_cap"] = size_of(arguments.memory_cap, "--memory-cap")
    # The compiler takes a while to load, and only some commands need it.
    from dmc.search import explain

    with shown(not arguments.quiet) as observer:
        explained = explain(**keywords, observer=observer)
    print(explained)
    return 0
