"""`dmc fit my_module:make_step --cap 80GB`: the largest batch that fits, with predicted times; nothing is run.

The function returns keyword arguments of dmc.compile, whose example is one batch. Batches that fit only if activations
are computed again in the backward pass are planned so.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dmc.cli.source import as_keywords, check_keywords, function_of
from dmc.errors import DmcError
from dmc.program.sizes import size_of, size_text
from dmc.progress import shown
from dmc.runtime.reports.report import columns

if TYPE_CHECKING:
    from dmc.fit import Search

# Columns without a terminal.
_WIDE = 120


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("fit", help="find the largest batch that fits into memory", description=__doc__)
    parser.add_argument("source", metavar="module:function", help="returns the keyword arguments of dmc.compile")
    parser.add_argument("--cap", required=True, metavar="SIZE", help="device memory of a rank, for example 80GB")
    parser.add_argument("--target", metavar="TARGET", help="as for dmc compile")
    parser.add_argument("--machine", metavar="MACHINE", help="the machine to plan for, for example h200")
    parser.add_argument("--plot", metavar="PNG", help="write a plot of time per sample over batch, named *.png")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; 1 where nothing fits. Raises DmcError."""
    cap = size_of(arguments.cap, "--cap")
    # Before the search, which takes minutes.
    if arguments.plot and Path(arguments.plot).suffix.lower() != ".png":
        raise DmcError(arguments.plot, "is not the name of a PNG", hint="use the suffix .png")
    made = as_keywords(function_of(arguments.source)(), arguments.source)
    given = {name: value for name in ("target", "machine") if (value := getattr(arguments, name)) is not None}
    keywords = {**made, **given}
    check_keywords(keywords, arguments.source)
    # The compiler takes a while to load, and only some commands need it.
    from dmc.fit import Fit, find, planner

    with shown(not arguments.quiet) as observer:
        plan, batch, step = planner(keywords, cap)

        def watched(count: int) -> Fit:
            with observer.stage(f"batch {count}"):
                return plan(count)

        search = find(watched, batch, step, cap)
    if arguments.plot:
        _plot(search, arguments.plot)
    _print(search, cap)
    return 0 if search.fits else 1


def _print(search: Search, cap: int) -> None:
    # Rich takes a while to load, and only this needs it.
    from rich.console import Console
    from rich.table import Table

    console = Console(width=columns(_WIDE), highlight=False, markup=False, emoji=False)
    table = Table("batch", "device memory", "kernels again", "on the host", "ms a step", "µs a sample", box=None)
    for each in search.fits:
        times = (f"{each.ns / 1e6:.3f}", f"{each.per_sample_ns / 1e3:.2f}")
        table.add_row(str(each.batch), size_text(each.bytes), str(each.recomputed), size_text(each.on_host), *times)
    console.print(table)
    if search.refused is not None:
        batch, needed = search.refused
        console.print(f"batch {batch} needs {size_text(needed)}, more than the cap of {size_text(cap)}")
    if search.fits:
        fastest = min(search.fits, key=lambda each: each.per_sample_ns)
        # So many plans were not enough to find one that is too large.
        largest = "largest" if search.refused else "largest that was tried"
        console.print(f"{largest}: {search.fits[-1].batch}; fastest per sample: {fastest.batch}")


def _plot(search: Search, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis: Any = figure.subplots()
    batches = [each.batch for each in search.fits]
    axis.plot(batches, [each.per_sample_ns / 1e3 for each in search.fits], "o-", label="µs a sample")
    axis.set(xlabel="batch", ylabel="predicted µs a sample", xlim=(0, None), ylim=(0, None))
    other = axis.twinx()
    other.plot(batches, [each.bytes / 1e9 for each in search.fits], "s--", color="tab:orange", label="GB")
    other.set(ylabel="GB planned", ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150, format="png")
