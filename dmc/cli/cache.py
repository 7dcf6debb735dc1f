"""`dmc cache`: where code is kept between compilations, and how much of it; `dmc cache --clear` removes it.

DMC_CACHE names another directory, or is "off"; DMC_CACHE_MIB limits its size.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from dmc.cache import CACHE, Cache


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("cache", help="show or clear the code kept on disk", description=__doc__)
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    cache = Cache.of(os.environ)
    if cache is None:
        print(f"no code is kept: {CACHE}={os.environ.get(CACHE, '')}")
        return 0
    entries = list(cache.entries())
    size = sum(each.bytes for each in entries) / (1 << 20)
    if arguments.clear:
        cache.clear()
    state = "removed" if arguments.clear else f"of at most {cache.most_bytes >> 20:,} MiB"
    print(f"{cache.directory}: {len(entries)} results, {size:.1f} MiB {state}")
    return 0
