"""`dmc`: compile, run and inspect training steps from the command line."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import dmc
from dmc.errors import DmcError

_COMMANDS = (
    *("compile", "fit", "run", "inspect", "ledger", "memory", "weights", "plan", "simulate", "compare"),
    *("tune", "calibrate", "cache"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: 0, 1 after an error (one message on stderr), 2 after bad usage."""
    try:
        # Commands are imported here, so that Ctrl-C does no more while they are.
        parsed = _parser().parse_args(arguments)
        return parsed.command(parsed)
    except DmcError as error:
        # A note says how to replay a stage that failed.
        print("\n  ".join([f"dmc: error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
    except BrokenPipeError:
        # The reader of our output is gone; without this, Python would report that again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"dmc: error: {error.filename or 'file'}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("dmc: interrupted", file=sys.stderr)
        return 130
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dmc", description="An ahead-of-time compiler for training steps.")
    parser.add_argument("--version", action="version", version=f"dmc {dmc.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name in _COMMANDS:
        importlib.import_module(f"dmc.cli.{name}").add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
