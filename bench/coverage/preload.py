"""Imported by the process from which the others are forked."""

from bench.coverage import modules, operators, sweep

__all__ = ["modules", "operators", "sweep"]
