"""Imported by the process from which the others are forked."""

from bench.coverage import architectures, gradients, modules, operators, sweep

__all__ = ["architectures", "gradients", "modules", "operators", "sweep"]
