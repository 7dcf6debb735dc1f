"""`dmc`: compile, run and inspect training steps from the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import dmc
from dmc.cli import compile as compile_command
from dmc.cli import inspect as inspect_command
from dmc.cli import ledger as ledger_command
from dmc.cli import memory as memory_command
from dmc.cli import plan as plan_command
from dmc.cli import run as run_command
from dmc.cli import simulate as simulate_command
from dmc.cli import tune as tune_command
from dmc.errors import DmcError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code: 0, 1 after an error (one message on stderr), 2 after bad usage."""
    parsed = _parser().parse_args(arguments)
    try:
        return parsed.command(parsed)
    except DmcError as error:
        # A note says how to replay a stage that failed.
        print("\n  ".join([f"dmc: error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
    except BrokenPipeError:
        # Whoever read our output has enough; without this, Python would complain once more when it flushes at exit.
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
    every = (
        compile_command,
        run_command,
        inspect_command,
        ledger_command,
        memory_command,
        plan_command,
        simulate_command,
        tune_command,
    )
    for command in every:
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
