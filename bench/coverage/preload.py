"""Imported by the process from which the others are forked."""

from bench.coverage import architectures, modules, operators, sweep

__all__ = ["architectures", "modules", "operators", "sweep"]
